// A preload that does nothing: the baseline of a cost.
int sigtop_test_empty_preload;

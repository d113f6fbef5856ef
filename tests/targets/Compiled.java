/** Computes in three methods for the given seconds of CPU time; all are compiled soon. */
public class Compiled {
    static long sum;

    static long inner(long seed) {
        for (int i = 0; i < 2000; i++) {
            seed = seed * 6364136223846793005L + 1442695040888963407L;
        }
        return seed;
    }

    static long middle(long seed, int count) {
        long all = 0;
        for (int i = 0; i < count; i++) {
            all ^= inner(seed + i);
        }
        return all;
    }

    public static void main(String[] arguments) {
        var bean = java.lang.management.ManagementFactory.getThreadMXBean();
        long end = bean.getCurrentThreadCpuTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        while (bean.getCurrentThreadCpuTime() < end) {
            sum += middle(sum, 100);
        }
    }
}

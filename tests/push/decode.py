"""Decodes an OTLP request with the classes of OpenTelemetry, checks the rules of its dictionary, and prints what it
has as JSON."""

import collections
import json
import sys

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest

request = ExportProfilesServiceRequest()
request.ParseFromString(sys.stdin.buffer.read())
dictionary = request.dictionary
tables = {field.name: list(getattr(dictionary, field.name)) for field in dictionary.DESCRIPTOR.fields}
assert len(tables) == 7, tables.keys()
used = {name: {0} for name in tables}
for name, table in tables.items():
    encoded = [item if isinstance(item, str) else item.SerializeToString(deterministic=True) for item in table]
    assert len(encoded) > 0 and len(encoded[0]) == 0, f"element 0 of {name}: {encoded[:1]}"
    assert len(set(encoded)) == len(encoded), f"{name} has an element twice"


def look_up(name, index):
    used[name].add(index)
    return tables[name][index]


def attributes(indices):
    all = [look_up("attribute_table", index) for index in indices]
    return {look_up("string_table", one.key_strindex): one.value.string_value for one in all}


def value_type(of):
    return [look_up("string_table", of.type_strindex), look_up("string_table", of.unit_strindex)]


def functions(stack_index):
    names = []
    for index in look_up("stack_table", stack_index).location_indices:
        location = look_up("location_table", index)
        mapping = look_up("mapping_table", location.mapping_index)
        look_up("string_table", mapping.filename_strindex)
        attributes(mapping.attribute_indices)
        attributes(location.attribute_indices)
        for line in location.lines:
            function = look_up("function_table", line.function_index)
            look_up("string_table", function.system_name_strindex)
            look_up("string_table", function.filename_strindex)
            names.append(look_up("string_table", function.name_strindex))
    return names


result = []
for resource in request.resource_profiles:
    own = {one.key: one.value.string_value for one in resource.resource.attributes}
    for scope in resource.scope_profiles:
        for profile in scope.profiles:
            flat = collections.Counter()
            keys = collections.Counter()
            assert len(profile.profile_id) == 16 and profile.period > 0 and profile.time_unix_nano > 0
            for sample in profile.samples:
                (value,) = sample.values
                assert value > 0
                names = functions(sample.stack_index)
                flat[names[0] if names else ""] += value
                keys.update(attributes(sample.attribute_indices).keys())
            result.append({
                "resource": own,
                "sample_type": value_type(profile.sample_type),
                "period_type": value_type(profile.period_type),
                "flat": flat,
                "labels": sorted(keys),
            })
for name, table in tables.items():
    orphans = set(range(len(table))) - used[name]
    assert not orphans, f"{name} has elements that nothing uses: {[table[index] for index in orphans]}"
print(json.dumps(result))

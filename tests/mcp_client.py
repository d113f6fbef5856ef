"""Calls every tool of `sigtop mcp` with the client of PyPI's `mcp`: mcp_client.py SIGTOP PID FILE. Prints one JSON object."""
import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(sigtop, pid, file):
    replies = {}

    async with stdio_client(StdioServerParameters(command=sigtop, args=["mcp"])) as (read, write):
        async with ClientSession(read, write) as session:
            replies["server"] = (await session.initialize()).model_dump(by_alias=True)["serverInfo"]["name"]
            await session.send_ping()
            replies["tools"] = [tool.name for tool in (await session.list_tools()).tools]

            async def call(key, tool, **arguments):
                result = await session.call_tool(tool, arguments)
                replies[key] = [bool(result.model_dump(by_alias=True)["isError"]), "".join(part.text for part in result.content)]

            await call("processes", "processes", limit=500)
            await call("live", "record", pid=int(pid), seconds=2)
            await call("file", "record", file=file)
            await call("launched", "record", command=["/bin/sh", "-c", "echo noise; exit 3"], seconds=1)
            await call("top", "top", profile="r2", sort="cum", limit=5)
            await call("filtered", "top", profile="r2", focus="burn_a", thread=".", process=".")
            await call("callers", "callers", profile="r2", function="burn_a")
            await call("source", "source", profile="r2", function="burn_a")
            await call("waits", "waits", profile="r1")
            await call("threads", "threads", profile="r1", limit=100)
            await call("compare", "compare", base="r2", new="r2")
            await call("no_waits", "waits", profile="r2")
            await call("no_profile", "top", profile="r9")
            await call("no_function", "callers", profile="r2", function="burn_z")
    print(json.dumps(replies))


asyncio.run(main(*sys.argv[1:]))

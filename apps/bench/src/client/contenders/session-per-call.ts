import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { checkResult } from '../checks.ts'
import type { Contender } from '../contenders.ts'
import { ARGS, CLIENT_INFO, TOOL } from '../protocol.ts'

/** A session for each call, with SDK v1: what an agent does that keeps nothing between its tools. */
export async function makeSessionPerCall(url: string): Promise<Contender> {
  return {
    async call() {
      const client = new Client(CLIENT_INFO)
      await client.connect(new StreamableHTTPClientTransport(new URL(url)))
      try {
        checkResult(await client.callTool({ name: TOOL, arguments: ARGS }))
      } finally {
        await client.close()
      }
    },
    async [Symbol.asyncDispose]() {},
  }
}

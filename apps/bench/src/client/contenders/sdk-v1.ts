import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { checkResult } from '../checks.ts'
import type { Contender } from '../contenders.ts'
import { ARGS, CLIENT_INFO, TOOL } from '../protocol.ts'

/** The `Client` of SDK v1 on its own transport. */
export async function makeSdkV1(url: string): Promise<Contender> {
  const client = new Client(CLIENT_INFO)
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  return {
    call: async () => checkResult(await client.callTool({ name: TOOL, arguments: ARGS })),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

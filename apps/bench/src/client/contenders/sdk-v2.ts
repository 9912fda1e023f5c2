import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { checkResult } from '../checks.ts'
import type { Contender } from '../contenders.ts'
import { ARGS, CLIENT_INFO, TOOL } from '../protocol.ts'

/** The `Client` of SDK v2 on its own transport. */
export async function makeSdkV2(url: string): Promise<Contender> {
  const client = new Client(CLIENT_INFO)
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  return {
    call: async () => checkResult(await client.callTool({ name: TOOL, arguments: ARGS })),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

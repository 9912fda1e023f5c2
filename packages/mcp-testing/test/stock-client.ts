import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

/** A connected client of SDK v1 with the SDK's own transport. */
export async function connectStockClient(url: string): Promise<Client & AsyncDisposable> {
  const client = new Client({ name: 'kit-test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

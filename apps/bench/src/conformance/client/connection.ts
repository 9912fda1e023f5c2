import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { StreamableHttpTransport } from '@x/mcp-transport'
import type { StreamableHttpTransportOptions } from '@x/mcp-transport'
import type { Run } from './run.ts'

export interface ConnectOptions extends StreamableHttpTransportOptions {
  readonly capabilities?: ClientCapabilities
  /** Registers the handlers of the capabilities, before anything is sent. */
  readonly prepare?: (client: Client) => void
}

/** The SDK's own client, unchanged, on our transport. */
export interface Connection extends AsyncDisposable {
  readonly client: Client
  readonly transport: StreamableHttpTransport
}

/** A client that is not connected yet. Closing it closes the transport. */
export function prepareConnection(run: Run, options: ConnectOptions = {}): Connection {
  const { capabilities = {}, prepare, ...transportOptions } = options
  const client = new Client({ name: 'conformance-client', version: '1.0.0' }, { capabilities })
  client.onerror = (error) => console.error('onerror:', error)
  prepare?.(client)
  const transport = new StreamableHttpTransport(run.url, transportOptions)
  return { client, transport, [Symbol.asyncDispose]: () => client.close() }
}

export async function connect(run: Run, options?: ConnectOptions): Promise<Connection> {
  const connection = prepareConnection(run, options)
  await connection.client.connect(connection.transport)
  return connection
}

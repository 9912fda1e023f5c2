import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { StreamableHttpTransport } from '../src/index.ts'
import type { StreamableHttpTransportOptions } from '../src/index.ts'

export interface StockClient extends AsyncDisposable {
  /** The unmodified client of SDK v1. */
  readonly client: Client
  readonly transport: StreamableHttpTransport
  /** Errors that `onerror` got. */
  readonly errors: Error[]
}

export interface StockClientOptions extends StreamableHttpTransportOptions {
  readonly capabilities?: ClientCapabilities | undefined
  /** Registers handlers before the client connects. */
  readonly setUp?: ((client: Client) => void) | undefined
}

/** The client of SDK v1, connected with this transport. */
export async function connectStock(
  url: string,
  { capabilities = {}, setUp, ...options }: StockClientOptions = {},
): Promise<StockClient> {
  const transport = new StreamableHttpTransport(url, options)
  const client = new Client({ name: 'stock', version: '1.0.0' }, { capabilities })
  const errors: Error[] = []
  client.onerror = (error) => errors.push(error)
  setUp?.(client)
  await client.connect(transport)
  return {
    client,
    transport,
    errors,
    [Symbol.asyncDispose]: () => client.close(),
  }
}

/** The first text of a tool's result. */
export function getText(result: Readonly<Record<string, unknown>>): unknown {
  const [first] = result['content'] as { text?: unknown }[]
  return first?.text
}

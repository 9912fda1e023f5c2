import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

/** All capabilities that the tools with input requests need. */
const capable: ClientCapabilities = {
  elicitation: { form: {}, url: {} },
  sampling: {},
  roots: {},
}

/** A client of SDK v2 that supports only the stateless revision, and answers input requests. */
export async function connectModernClient(
  url: string,
  capabilities: ClientCapabilities = capable,
): Promise<Client & AsyncDisposable> {
  const client = new Client(
    { name: 'kit-test', version: '1.0.0' },
    { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } },
  )
  if (capabilities.elicitation !== undefined) {
    client.setRequestHandler('elicitation/create', ({ params }) =>
      params.mode === 'url'
        ? { action: 'accept' }
        : { action: 'accept', content: { value: `re: ${params.message}` } },
    )
  }
  if (capabilities.sampling !== undefined) {
    client.setRequestHandler('sampling/createMessage', () => ({
      role: 'assistant',
      model: 'none',
      content: { type: 'text', text: 'hello' },
    }))
  }
  if (capabilities.roots !== undefined) {
    client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///work' }] }))
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

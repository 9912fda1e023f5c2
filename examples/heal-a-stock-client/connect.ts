import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { Client as ClientOfSdk2 } from '@modelcontextprotocol/client'
import { StreamableHttpTransport } from '@x/mcp-transport'

/** Connects the client of SDK 1. Only the transport is another one. */
export async function connect(url: string): Promise<Client> {
  const client = new Client({ name: 'app', version: '1.0.0' })
  const transport = new StreamableHttpTransport(url, { onSessionLost: 'reinitialize' })
  await client.connect(transport)
  return client
}

/** The same for SDK 2. */
export async function connectSdk2(url: string): Promise<ClientOfSdk2> {
  const client = new ClientOfSdk2({ name: 'app', version: '1.0.0' })
  const transport = new StreamableHttpTransport(url, { onSessionLost: 'reinitialize' })
  await client.connect(transport)
  return client
}

import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { StreamableHttpTransport } from '@x/mcp-transport'
import type { StreamableHttpTransportOptions } from '@x/mcp-transport'

export const SDK_VERSIONS = ['v1', 'v2'] as const
export type SdkVersion = (typeof SDK_VERSIONS)[number]

/** The `Client` of one version, connected; both close with the block that opened them. */
export type SdkClient = (ClientV1 | ClientV2) & AsyncDisposable

const INFO = { name: 'interop', version: '1.0.0' }

export async function onOurTransport(
  version: SdkVersion,
  url: string,
  options: StreamableHttpTransportOptions = {},
): Promise<SdkClient> {
  const transport = new StreamableHttpTransport(url, options)
  if (version === 'v1') {
    const client = new ClientV1(INFO)
    await client.connect(transport)
    return disposable(client)
  }
  const client = new ClientV2(INFO)
  await client.connect(transport)
  return disposable(client)
}

export async function onStockTransport(version: SdkVersion, url: string): Promise<SdkClient> {
  if (version === 'v1') {
    const client = new ClientV1(INFO)
    await client.connect(new HttpV1(new URL(url)))
    return disposable(client)
  }
  const client = new ClientV2(INFO)
  await client.connect(new HttpV2(new URL(url)))
  return disposable(client)
}

function disposable<Client extends ClientV1 | ClientV2>(client: Client): Client & AsyncDisposable {
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

import type { Contender } from './contender.ts'

/** `modern` is ours as well, with the stateless revision on the wire. */
export const CONTENDERS = ['bare', 'ours', 'modern', 'stock'] as const

export type ContenderName = (typeof CONTENDERS)[number]

/** Loads only the code of the one that is asked for: the others must not be in its heap. */
export async function makeContender(name: ContenderName, url: string): Promise<Contender> {
  switch (name) {
    case 'bare': {
      const { Bare } = await import('./bare.ts')
      return new Bare(url)
    }
    case 'ours': {
      const { TransportContender } = await import('./transport-contender.ts')
      const { StreamableHttpTransport } = await import('@x/mcp-transport')
      return new TransportContender(new StreamableHttpTransport(url, { era: 'legacy' }))
    }
    case 'modern': {
      const { TransportContender } = await import('./transport-contender.ts')
      const { StreamableHttpTransport } = await import('@x/mcp-transport')
      return new TransportContender(new StreamableHttpTransport(url, { era: 'modern' }))
    }
    case 'stock': {
      const { TransportContender } = await import('./transport-contender.ts')
      const sdk = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
      return new TransportContender(new sdk.StreamableHTTPClientTransport(new URL(url)))
    }
  }
}

export function contenderNameFrom(text: unknown): ContenderName {
  const name = CONTENDERS.find((known) => known === text)
  if (name === undefined) throw new TypeError(`There is no contender "${String(text)}"`)
  return name
}

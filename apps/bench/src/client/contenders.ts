/** Who is measured. `control` is bare `undici.request`, which every client has to pay for in some way. */
export const CONTENDERS = [
  'control',
  'ours',
  'sdk-v1',
  'sdk-v2',
  'langchain-mcp-adapters',
  'session-per-call',
] as const

export type ContenderName = (typeof CONTENDERS)[number]

/** One way to call the tool. */
export interface Contender extends AsyncDisposable {
  /** Calls it once. Rejects unless the answer was the right one. */
  call(): Promise<void>
}

/** Connects, where a client does that at the beginning. Loads only the code of the one that is asked for. */
export async function makeContender(name: ContenderName, url: string): Promise<Contender> {
  switch (name) {
    case 'control': {
      const { makeControl } = await import('./contenders/control.ts')
      return makeControl(url)
    }
    case 'ours': {
      const { makeOurs } = await import('./contenders/ours.ts')
      return makeOurs(url)
    }
    case 'sdk-v1': {
      const { makeSdkV1 } = await import('./contenders/sdk-v1.ts')
      return makeSdkV1(url)
    }
    case 'sdk-v2': {
      const { makeSdkV2 } = await import('./contenders/sdk-v2.ts')
      return makeSdkV2(url)
    }
    case 'langchain-mcp-adapters': {
      const { makeLangchainMcpAdapters } = await import('./contenders/langchain-mcp-adapters.ts')
      return makeLangchainMcpAdapters(url)
    }
    case 'session-per-call': {
      const { makeSessionPerCall } = await import('./contenders/session-per-call.ts')
      return makeSessionPerCall(url)
    }
  }
}

export function contenderNameFrom(text: unknown): ContenderName {
  const name = CONTENDERS.find((known) => known === text)
  if (name === undefined) throw new TypeError(`There is no contender "${String(text)}"`)
  return name
}

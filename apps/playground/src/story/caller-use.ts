import type { ExchangeMark, RecordingProxy } from '@x/mcp-testing'
import type { ConnectCaller } from './callers.ts'
import type { Figure } from './check.ts'
import { counterIn } from './conversation.ts'
import type { Scene } from './scene.ts'

export interface CallerUseOptions {
  /** Before the agent. */
  readonly proxy: RecordingProxy
  readonly token: string
  readonly connect: ConnectCaller
  readonly sentence: string
}

export interface CallerUse {
  /** What the caller sent. */
  readonly mark: ExchangeMark
  readonly figures: Readonly<Record<string, Figure>>
}

/** A caller has asked for the tools once, used one, and heard of what went on meanwhile. */
export const ONE_USE = { 'tools/list': 1, 'tools/call': 1, tools: 1, progress: true }

/** All that one caller does, from its first request to its last. */
export async function useOf(scene: Scene, options: CallerUseOptions): Promise<CallerUse> {
  const { narrator, world } = scene
  const { proxy, token, connect, sentence } = options
  const mark = proxy.mark()
  const shop = world.shop.proxy.mark()
  let tools: readonly string[]
  let answer: string
  let news = 0
  {
    await using caller = await connect(proxy.url, token)
    tools = await caller.listTools()
    narrator.says('client', `finds ${tools.join(', ')}, and asks it: ${sentence}`)
    answer = await caller.call(tools[0] ?? '', sentence, {
      onProgress(text) {
        news++
        narrator.says('client', `hears: ${text}`)
      },
    })
    narrator.says('agent', answer)
  }
  const called = mark.exchanges().find(({ rpcMethod }) => rpcMethod === 'tools/call')
  return {
    mark,
    figures: {
      revision: called?.protocolVersion ?? 'none',
      'tools/list': mark.count({ rpcMethod: 'tools/list' }),
      tools: tools.length,
      progress: news > 0,
      'POSTs to the shop': shop.count({ httpMethod: 'POST' }),
      counter: counterIn(answer),
    },
  }
}

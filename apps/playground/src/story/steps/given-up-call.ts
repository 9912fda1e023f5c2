import type { Exchange, RecordingProxy } from '@x/mcp-testing'
import { callerWithoutSession } from '../callers.ts'
import { checkStep } from '../check.ts'
import type { Scene } from '../scene.ts'

export interface GivenUpCallOptions {
  /** Before the agent. */
  readonly proxy: RecordingProxy
  readonly token: string
  readonly sentence: string
}

/** A caller that gives up stops the agent, which gives up what it asked of the shop. */
export async function givenUpCall(scene: Scene, options: GivenUpCallOptions): Promise<void> {
  const { world, narrator, tell } = scene
  const { proxy, token, sentence } = options
  narrator.step(
    'A client gives up while the shop keeps the agent waiting',
    'The gateway ends the run, the agent gives its own call up, and the shop is told (notifications/cancelled).',
  )
  const toShop = world.shop.proxy.mark()
  world.shop.proxy.inject({ match: isCounting, action: 'hang', times: 1 })
  const abort = new AbortController()
  await using caller = await callerWithoutSession(proxy.url, token)
  const [tool = ''] = await caller.listTools()
  narrator.says('client', `asks ${tool}: ${sentence}`)
  const outcome = caller.call(tool, sentence, { signal: abort.signal }).then(
    (answer) => answer,
    () => (abort.signal.aborted ? 'given up' : 'failed'),
  )
  // What does not come is a wrong figure, not the end of the story.
  const seen = (matches: (exchange: Exchange) => boolean): Promise<Exchange | undefined> =>
    toShop.waitFor(matches).catch(() => undefined)
  await seen(isCounting)
  narrator.says('client', 'does not want it any more')
  abort.abort()
  const call = await seen((exchange) => isCounting(exchange) && exchange.end !== undefined)
  const told = await seen(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')
  tell(
    checkStep(
      'caller that gives up',
      {
        outcome: await outcome,
        'call of the shop': call?.end ?? 'open',
        'the shop was told': told !== undefined,
      },
      { outcome: 'given up', 'call of the shop': 'client-gone', 'the shop was told': true },
    ),
  )
}

function isCounting({ toolName }: Exchange): boolean {
  return toolName === 'counter_add'
}

import { TaskState } from '@a2a-js/sdk'
import { startA2aAgent, textPart } from '../../../../packages/mcp-gateway-a2a/test/a2a-agent.ts'

/** Protocol of an agent. */
export interface A2aKind {
  readonly version: '1.0' | '0.3'
  readonly streaming: boolean
}

export interface WeatherAgent extends AsyncDisposable {
  readonly url: string
  /** Resolves when a task was cancelled. */
  readonly cancelled: Promise<void>
}

/**
 * Starts an agent on the server side of `@a2a-js/sdk`. It answers with a forecast; asks for a place after `Ask`;
 * waits for its cancellation after `Wait`.
 */
export async function startWeatherAgent(kind: A2aKind): Promise<WeatherAgent> {
  const cancellation = Promise.withResolvers<void>()
  const agent = await startA2aAgent(async (turn) => {
    turn.begin()
    if (turn.words === 'Ask' && !turn.isContinued) {
      turn.status(TaskState.TASK_STATE_INPUT_REQUIRED, 'Where?')
      return
    }
    turn.status(TaskState.TASK_STATE_WORKING, 'Looking at the sky')
    if (turn.words === 'Wait') {
      await turn.cancelled
      cancellation.resolve()
      return
    }
    turn.artifact('forecast', [textPart('It will rain ')], { lastChunk: false })
    turn.artifact('forecast', [textPart(`at ${turn.words}.`)], { append: true })
    turn.status(TaskState.TASK_STATE_COMPLETED, `It will rain at ${turn.words}.`)
  }, kind)
  return {
    url: agent.url,
    cancelled: cancellation.promise,
    [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose](),
  }
}

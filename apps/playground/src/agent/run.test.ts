import { AIMessage, ToolMessage } from '@langchain/core/messages'
import { MemorySaver } from '@langchain/langgraph-checkpoint'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startBasketServer } from '../servers/basket-server.ts'
import type { ReplaceableServer } from '@x/mcp-testing'
import type { Happening } from '../timeline/events.ts'
import { TeamRunner } from './run.ts'
import { ScriptedModel } from './scripted-model.ts'

let basket: ReplaceableServer
beforeAll(async () => {
  basket = await startBasketServer()
})
afterAll(() => basket[Symbol.asyncDispose]())

function startRunner() {
  vi.stubEnv('BASKET_URL', basket.url)
  const happenings: Happening[] = []
  const checkpointer = new MemorySaver()
  const runner = new TeamRunner(
    { model: new ScriptedModel(), executionType: 'runtime', checkpointer },
    (happening) => happenings.push(happening),
  )
  return { runner, happenings, checkpointer }
}

test('a call of a sub-agent fails when the last tool of the sub-agent fails', async () => {
  const { runner, happenings } = startRunner()
  await runner.say({ runId: 'a', threadId: 'one' }, 'Check out, then show my basket')
  const failed = happenings.flatMap((one) =>
    one.type === 'tool-call-changed' ? [one.change.result?.isError] : [],
  )
  expect(failed).toEqual([true, true, false, false])
  expect(happenings.at(-1)).toEqual({ type: 'run', run: { id: 'a', state: 'done' } })
})

test('a run that follows a stopped run finds no open calls', async () => {
  const { runner, happenings, checkpointer } = startRunner()
  const thread = { threadId: 'one' }
  await runner.say({ runId: 'a', ...thread }, 'Add a fig to my basket, then check out')
  expect(happenings.at(-1)).toEqual({ type: 'run', run: { id: 'a', state: 'waiting' } })
  await runner.stop()
  await runner.say({ runId: 'b', ...thread }, 'Show my basket')
  const saved = await checkpointer.get({ configurable: { thread_id: 'one' } })
  const messages = saved?.channel_values['messages']
  if (!Array.isArray(messages)) throw new TypeError('no messages')
  const called = messages.flatMap((one) =>
    AIMessage.isInstance(one) ? (one.tool_calls ?? []) : [],
  )
  const results = messages.filter((one) => ToolMessage.isInstance(one))
  expect(results.map((result) => result.tool_call_id)).toEqual(called.map(({ id }) => id))
  expect(results.map(({ status }) => status)).toEqual(['success', 'error', 'success'])
  expect(results[1]?.text).toContain('The call may have been executed')
})

test('a run without a checkpoint cannot be continued', async () => {
  const { runner, happenings } = startRunner()
  await runner.continue({ runId: 'a', threadId: 'one' })
  expect(happenings.at(-1)).toMatchObject({
    run: { state: 'failed', problem: expect.stringContaining('say it again') },
  })
})

test('a run that has ended in another process ends again, without a call', async () => {
  const { runner, happenings } = startRunner()
  const run = { runId: 'a', threadId: 'one' }
  await runner.say(run, 'Add a fig to my basket')
  happenings.length = 0
  await runner.continue(run)
  const states = ['running', 'done'].map((state) => ({ type: 'run', run: { id: 'a', state } }))
  expect(happenings).toEqual(states)
})

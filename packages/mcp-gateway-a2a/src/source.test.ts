import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import { type AgentTurn, filePart, startA2aAgent, textPart } from '../test/a2a-agent.ts'
import { started, callOf, all, textIn, rain } from '../test/a2a-world.ts'
import { settled } from '../../mcp-gateway/test/manual-clock.ts'
import type { Clock } from '@x/mcp-gateway'
import { systemClock } from '@x/mcp-gateway/adapter'
import type { AgentUpdate } from '@x/mcp-gateway'

const KINDS = [
  { version: '1.0', streaming: true },
  { version: '1.0', streaming: false },
  { version: '1.0', streaming: true, binding: 'HTTP+JSON' },
  { version: '1.0', streaming: false, binding: 'HTTP+JSON' },
  { version: '0.3', streaming: true },
  { version: '0.3', streaming: false },
] as const

describe.each(KINDS)('an agent of A2A $version, streaming: $streaming, $binding', (kind) => {
  test('has the skills of its card, and answers', async () => {
    const heard: AgentTurn[] = []
    await using agent = await startA2aAgent((turn) => {
      heard.push(turn)
      rain(turn)
    }, kind)
    await using world = await started(agent)
    expect(world.agents).toMatchObject([
      {
        id: `a2a:${agent.origin}`,
        name: 'Weather',
        description: 'Knows the weather',
        skills: [
          {
            id: 'forecast',
            name: 'Forecast',
            description: 'Tells the weather',
            tags: ['weather'],
            examples: ['Will it rain in Oslo?'],
            inputModes: ['text/plain'],
          },
        ],
      },
    ])
    const updates = await all(world.source.run(callOf(world)))
    expect(textIn(updates)).toBe('It will rain.')
    expect(updates.at(-1)).toEqual({ type: 'done' })
    expect(heard[0]?.words).toBe('Rain?')
    expect(heard[0]?.message.metadata).toMatchObject({ skillId: 'forecast' })
    expect(world.warnings).toEqual([])
  })

  test('asks, and continues the same task with the answer', async () => {
    const turns: AgentTurn[] = []
    await using agent = await startA2aAgent((turn) => {
      turns.push(turn)
      turn.begin()
      if (turn.isContinued) {
        turn.artifact('a', [textPart(`Sun in ${turn.words}`)])
        turn.status(3)
      } else turn.status(6, 'Where?')
    }, kind)
    await using world = await started(agent)
    const asked = (await all(world.source.run(callOf(world)))).at(-1)
    expect(asked).toMatchObject({ type: 'asked', questions: [{ id: 'input', message: 'Where?' }] })
    if (asked?.type !== 'asked') return
    const state: unknown = JSON.parse(JSON.stringify(asked.state))
    const answers = { input: { action: 'accept', content: { answer: 'Oslo' } } } as const
    const updates = await all(world.source.run(callOf({ ...world, resume: { state, answers } })))
    expect(textIn(updates)).toBe('Sun in Oslo')
    expect(turns[1]?.context.taskId).toBe(turns[0]?.context.taskId)
    expect(turns[1]?.context.contextId).toBe(turns[0]?.context.contextId)
  })

  test('causes no warning if a forgotten task has ended already', async () => {
    let taskId = ''
    await using agent = await startA2aAgent((turn) => {
      taskId = turn.context.taskId
      rain(turn)
    }, kind)
    await using world = await started(agent)
    await all(world.source.run(callOf(world)))
    await world.source.forget?.(world.agentId, { taskId, contextId: 'c' })
    expect(agent.methods.at(-1)).toMatch(/cancel/i)
    expect(world.warnings).toEqual([])
  })

  test('is cancelled when its caller cancels, and when nobody answers', async () => {
    const isRunning = deferred()
    const wasCancelled = deferred()
    await using agent = await startA2aAgent(async (turn) => {
      turn.begin()
      if (turn.words === 'ask') return turn.status(6, 'Where?')
      isRunning.resolve()
      await turn.cancelled
      wasCancelled.resolve()
    }, kind)
    await using world = await started(agent)
    const caller = new AbortController()
    const run = all(world.source.run(callOf({ ...world, signal: caller.signal })))
    await isRunning.promise
    caller.abort(new Error('gone'))
    await expect(run).rejects.toThrow('gone')
    await wasCancelled.promise
    const input = { kind: 'message', text: 'ask', files: [] } as const
    const asked = (await all(world.source.run(callOf({ ...world, input })))).at(-1)
    if (asked?.type !== 'asked') throw new Error('It did not ask')
    await world.source.forget?.(world.agentId, asked.state)
    const cancel = kind.version === '1.0' ? 'CancelTask' : 'tasks/cancel'
    expect(agent.methods.filter((method) => method === cancel)).toHaveLength(2)
  })
})

test('refuses an answer over the limit of bytes, and cancels its task', async () => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    for (let n = 0; n < 4; n++) {
      const chunk = [filePart('a.bin', Buffer.alloc(1000), 'x/y')]
      turn.artifact('a', chunk, { append: n > 0, lastChunk: false })
    }
  })
  await using world = await started(agent, { maxBytes: 3000 })
  await expect(all(world.source.run(callOf(world)))).rejects.toMatchObject({ code: 'LIMIT' })
  await agent.called('CancelTask')
})

const BINDINGS = ['JSONRPC', 'HTTP+JSON'] as const

test.for(BINDINGS)(
  'resumes a broken stream over %s without loss or repetition',
  async (binding) => {
    const isCut = deferred()
    const isBack = deferred()
    await using agent = await startA2aAgent(
      async (turn) => {
        turn.begin()
        turn.artifact('a', [textPart('It will ')], { lastChunk: false })
        await isCut.promise
        turn.artifact('a', [textPart('rain ')], { append: true, lastChunk: false })
        await isBack.promise
        turn.artifact('a', [textPart('today.')], { append: true })
        turn.status(3)
      },
      { binding },
    )
    await using world = await started(agent)
    const updates: AgentUpdate[] = []
    for await (const update of world.source.run(callOf(world))) {
      updates.push(update)
      if (update.type !== 'text') continue
      if (update.text === 'It will ') {
        agent.cutStreams()
        isCut.resolve()
      } else isBack.resolve()
    }
    expect(textIn(updates)).toBe('It will rain today.')
    expect(agent.methods).toContain('SubscribeToTask')
    expect(agent.methods.filter((method) => method === 'SendStreamingMessage')).toHaveLength(1)
    expect(agent.methods).not.toContain('CancelTask')
  },
)

test('cancels the task if the caller leaves before its id is known', async () => {
  const wasCancelled = deferred()
  const isThere = deferred()
  await using agent = await startA2aAgent(async (turn) => {
    isThere.resolve()
    await settled()
    turn.begin()
    await turn.cancelled
    wasCancelled.resolve()
  })
  await using world = await started(agent)
  const caller = new AbortController()
  const run = all(world.source.run(callOf({ ...world, signal: caller.signal })))
  await isThere.promise
  caller.abort(new Error('gone'))
  await expect(run).rejects.toThrow('gone')
  await wasCancelled.promise
})

test('warns if a forgotten task cannot be cancelled', async () => {
  await using agent = await startA2aAgent(rain)
  await using world = await started(agent)
  await world.source.forget?.(world.agentId, { taskId: 'unknown', contextId: 'c' })
  expect(world.warnings[0]).toContain('could not be cancelled')
  await world.source.forget?.(world.agentId, 'no state')
  expect(agent.methods).toEqual(['CancelTask'])
})

test('reads the task of an agent without streams often at first, then less often', async () => {
  await using agent = await startA2aAgent(
    async (turn) => {
      turn.begin()
      await agent.called('GetTask', 3)
      turn.status(3, 'Sun')
    },
    { streaming: false },
  )
  const { clock, waits } = shortClock()
  await using world = await started(agent, { clock, pollMs: 25 })
  expect(textIn(await all(world.source.run(callOf(world))))).toBe('Sun')
  expect(waits.slice(0, 3)).toEqual([10, 20, 25])
})

test('waits between reads for an agent that cannot be reached', async () => {
  const agent = await startA2aAgent((turn) => turn.begin(), { streaming: false })
  const { clock, waits } = shortClock()
  await using world = await started(agent, { clock, pollMs: 1000 })
  const gone = agent.called('GetTask', 2).then(() => agent[Symbol.asyncDispose]())
  await expect(all(world.source.run(callOf(world)))).rejects.toThrow(
    'The address cannot be reached',
  )
  await gone
  expect(waits.slice(-4)).toEqual([1000, 1000, 1000, 1000])
})

/** A clock on which up to a second passes at once, and how long each such wait was. */
function shortClock(): { readonly clock: Clock; readonly waits: readonly number[] } {
  const waits: number[] = []
  const after: Clock['after'] = (ms, callback) => {
    if (ms > 1000) return systemClock.after(ms, callback)
    waits.push(ms)
    return systemClock.after(0, callback)
  }
  return { clock: { ...systemClock, after }, waits }
}

test('fails if a stream breaks before its task is known, and does not send the message again', async () => {
  const isThere = deferred()
  await using agent = await startA2aAgent(async () => {
    isThere.resolve()
    await new Promise(() => {})
  })
  await using world = await started(agent)
  const run = all(world.source.run(callOf(world)))
  await isThere.promise
  agent.cutStreams()
  await expect(run).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(agent.methods).toEqual(['SendStreamingMessage'])
})

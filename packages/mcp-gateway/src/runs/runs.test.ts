import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { expect, test } from 'vitest'

import { settled } from '../../test/manual-clock.ts'
import {
  NO_OWN_FILES,
  runsOf,
  textsOf,
  metaOf,
  waitingForTheEnd,
  filesOfMemory,
} from '../../test/runs-world.ts'
import {
  principalNamed,
  callRuns,
  requestOf,
  tool,
  type Script,
} from '../../test/scripted-source.ts'
import { systemClock } from '../internal/clock.ts'
import { GatewayError } from '../errors.ts'
import { validatorFor } from '../agents/schemas.ts'
import type { AgentCall, AgentUpdate } from '../agents/agent.ts'
import type { ModelUsage } from '../internal/run-event.ts'
import type { ResultFiles } from '../files/result-files.ts'
import { NO_OUTPUT } from './result.ts'

test('returns an answer that is there at once', async () => {
  await using world = runsOf(() => [{ type: 'done', text: 'Hello' }])
  const outcome = await callRuns(world.calls, tool, requestOf('Hi'))
  expect(textsOf(outcome)).toEqual(['Hello'])
  expect(metaOf(outcome)).toEqual({ runId: expect.stringMatching(/^run_[0-9a-f]{16}$/) })
})

test('adds the tokens of each model up, and does not keep more than 32 names of models', async () => {
  await using world = runsOf(function* () {
    const used = { inputTokens: 3, outputTokens: 1 }
    for (let model = 0; model < 40; model++) {
      yield { type: 'text', text: '', usage: { model: `m${model % 36}`, ...used } }
    }
    yield { type: 'done', text: 'Hello' }
  })
  const outcome = await callRuns(world.calls, tool, requestOf('Hi'))
  const { usage = [] } = metaOf(outcome) as { usage?: ModelUsage[] }
  expect(usage).toHaveLength(33)
  expect(usage[0]).toEqual({ model: 'm0', inputTokens: 6, outputTokens: 2 })
  expect(usage[32]).toEqual({ inputTokens: 12, outputTokens: 4 })
  expect(world.events.at(-1)).toMatchObject({ type: 'ended', usage })
})

test('returns the whole text once, then the files in order', async () => {
  await using world = runsOf(
    async function* ({ artifacts }) {
      yield { type: 'text', text: 'Two ' }
      yield { type: 'file', file: { name: 'a.png', data: new Uint8Array(3) } }
      await artifacts.write({ name: 'b.csv', data: new Uint8Array(3) })
      yield { type: 'text', text: 'files' }
      yield { type: 'done' }
    },
    { files: filesOfMemory() },
  )
  const outcome = await callRuns(world.calls, tool, requestOf('Make'))
  expect(outcome).toMatchObject({
    result: {
      content: [
        { type: 'text', text: 'Two files' },
        { type: 'resource_link', name: 'a.png' },
        { type: 'resource_link', name: 'b.csv' },
      ],
    },
  })
})

test('returns the answer without a file that could not be stored', async () => {
  const script: Script = () => [
    { type: 'file', file: { name: 'too-large', data: new Uint8Array(3) } },
    { type: 'done', text: 'Here you are' },
  ]
  await using world = runsOf(script, { files: filesOfMemory() })
  expect(textsOf(await callRuns(world.calls, tool, requestOf('Make')))).toEqual([
    'Here you are',
    'The file "too-large" could not be kept: There is no room left',
  ])
})

test('cuts a text that is larger than a result may be after a whole character, and says so', async () => {
  const huge = `${'x😀'.repeat(2 * 1024 * 1024)} and more`
  for (const updates of [
    [{ type: 'text', text: huge }, { type: 'text', text: huge }, { type: 'done' }],
    [
      { type: 'text', text: huge },
      { type: 'done', text: huge },
    ],
  ] satisfies AgentUpdate[][]) {
    await using world = runsOf(() => updates)
    const [text = ''] = textsOf(await callRuns(world.calls, tool, requestOf('Write')))
    expect(Buffer.byteLength(text)).toBeLessThan(1_000_000)
    expect(text).toMatch(/😀x?\n\[Cut here: \d+ of \d+ characters are shown\./u)
  }
})

test('says that the rest is missing when the pieces of text exceed 10 MiB', async () => {
  const piece: AgentUpdate = { type: 'text', text: 'x'.repeat(1024 * 1024) }
  await using world = runsOf(() => [...Array.from({ length: 11 }, () => piece), { type: 'done' }])
  const [, note] = textsOf(await callRuns(world.calls, tool, requestOf('Write')))
  expect(note).toContain('the rest of it is missing')
})

test('returns the whole answer even if the pieces of text were longer', async () => {
  const whole = 'x'.repeat(900_000)
  await using world = runsOf(() => [
    { type: 'text', text: `${whole}more` },
    { type: 'done', text: whole },
  ])
  expect(textsOf(await callRuns(world.calls, tool, requestOf('Write')))).toEqual([whole])
})

test('fails when the structured content of a tool with an output schema is too large', async () => {
  const structured = { rows: 'x'.repeat(1_000_000) }
  await using world = runsOf(() => [{ type: 'done', text: '', structured }])
  const strict = { ...tool, outputSchema: { type: 'object' } }
  expect(metaOf(await callRuns(world.calls, strict, requestOf('List')))).toMatchObject({
    reason: 'too_large',
  })
})

test('names 20 files that could not be stored, and counts the others', async () => {
  const file = { name: 'too-large', data: new Uint8Array(3) }
  await using world = runsOf(
    function* () {
      for (let count = 0; count < 1000; count++) yield { type: 'file', file }
      yield { type: 'done' }
    },
    { files: filesOfMemory() },
  )
  const texts = textsOf(await callRuns(world.calls, tool, requestOf('Make')))
  expect(texts).toHaveLength(21)
  expect(texts.at(-1)).toBe('980 more files could not be kept.')
})

test('refuses files that an agent writes after its answer', async () => {
  const writers: AgentCall['artifacts'][] = []
  await using world = runsOf(
    ({ artifacts }) => {
      writers.push(artifacts)
      return [{ type: 'done', text: 'Done' }]
    },
    { files: filesOfMemory() },
  )
  await callRuns(world.calls, tool, requestOf('Make'))
  const late = writers[0]?.write({ name: 'late', data: new Uint8Array(3) })
  await expect(late).rejects.toMatchObject({ code: 'CLOSED' })
})

test('stops an agent that never pauses at its time limit', async () => {
  await using world = runsOf(
    function* () {
      for (;;) yield { type: 'text', text: 'and so on ' }
    },
    { clock: systemClock, timeoutMs: 50 },
  )
  const outcome = await callRuns(world.calls, tool, requestOf('Go', { progress: () => {} }))
  expect(metaOf(outcome)).toMatchObject({ reason: 'timeout' })
})

test('says that the agent finished without output, and reports it', async () => {
  const events: string[] = []
  const onEvent = ({ type }: { readonly type: string }): void => void events.push(type)
  await using world = runsOf(() => [{ type: 'done' }], { onEvent })
  expect(textsOf(await callRuns(world.calls, tool, requestOf('Hi')))).toEqual([NO_OUTPUT])
  expect(events).toEqual(['started', 'empty', 'ended'])
})

test('returns structured output as text too', async () => {
  await using world = runsOf(() => [{ type: 'done', structured: { total: 3 } }])
  expect(await callRuns(world.calls, tool, requestOf('Count'))).toMatchObject({
    result: { content: [{ text: '{"total":3}' }], structuredContent: { total: 3 } },
  })
})

test('names the path of output that does not match the schema of the skill', async () => {
  await using world = runsOf(() => [{ type: 'done', structured: { total: 'three' } }])
  const outputSchema = { type: 'object', properties: { total: { type: 'number' } } }
  const strict = { ...tool, outputSchema, checkOutput: validatorFor(outputSchema) }
  const outcome = await callRuns(world.calls, strict, requestOf('Count'))
  expect(metaOf(outcome)).toMatchObject({ reason: 'invalid_output' })
  expect(textsOf(outcome)[0]).toContain('/total must be number')
})

test.each<{
  readonly title: string
  readonly updates: readonly AgentUpdate[]
  readonly reason: string
  readonly text: RegExp
}>([
  {
    title: 'reports a failure',
    updates: [{ type: 'failed', reason: 'No such order.' }],
    reason: 'agent_failed',
    text: /"Support": No such order/,
  },
  {
    title: 'was stopped where it runs',
    updates: [{ type: 'failed', reason: 'Stopped by the operator.', isCancelled: true }],
    reason: 'cancelled',
    text: /^Agent "Support": Stopped by the operator/,
  },
  {
    title: 'ends without an answer',
    updates: [{ type: 'text', text: 'We' }],
    reason: 'agent_failed',
    text: /without an answer/,
  },
  {
    title: 'requires a sign-in',
    updates: [{ type: 'authorization', url: 'https://a.test/' }],
    reason: 'auth_required',
    text: /Open https:\/\/a\.test\//,
  },
])('returns an error with its reason when the agent $title', async ({ updates, reason, text }) => {
  await using world = runsOf(() => updates)
  const outcome = await callRuns(world.calls, tool, requestOf('Hi'))
  expect(outcome).toMatchObject({ result: { isError: true, _meta: { reason } } })
  expect(textsOf(outcome)[0]).toMatch(text)
})

test('writes the error of an agent to the log only', async () => {
  const error = new Error('password=hunter2')
  await using world = runsOf(() => {
    throw error
  })
  const outcome = await callRuns(world.calls, tool, requestOf('Hi'))
  expect(metaOf(outcome)).toMatchObject({ reason: 'agent_failed' })
  expect(JSON.stringify(outcome)).not.toContain('hunter2')
  expect(world.events).toContainEqual(expect.objectContaining({ type: 'failed', error }))
})

test.each([
  ['QUOTA', 'no_room'],
  ['LIMIT', 'too_large'],
] as const)('an agent that throws the error of a file (%s) ends with %s', async (code, reason) => {
  await using world = runsOf(() => {
    throw new GatewayError(code, 'More than the 10 bytes that are allowed')
  })
  const outcome = await callRuns(world.calls, tool, requestOf('Hi'))
  expect(outcome).toMatchObject({ result: { isError: true, _meta: { reason } } })
  expect(textsOf(outcome)[0]).toContain('More than the 10 bytes that are allowed.')
})

test('emits how each run ended, without its texts', async () => {
  let count = 0
  await using world = runsOf(() => {
    count += 1
    return count === 1 ? [{ type: 'done', text: 'secret' }] : [{ type: 'failed', reason: 'secret' }]
  })
  await callRuns(world.calls, tool, requestOf('secret'))
  await callRuns(world.calls, tool, requestOf('secret'))
  expect(world.events).toMatchObject([
    { type: 'started', tool: 'support', agentId: 'support', principal: 'ada' },
    { type: 'ended', outcome: 'done', durationMs: 0 },
    { type: 'started' },
    { type: 'ended', outcome: 'agent_failed' },
  ])
  expect(JSON.stringify(world.events)).not.toContain('secret')
})

test('does not show the address of the store to callers', async () => {
  const files: ResultFiles = {
    input: async () => [],
    open: () => ({
      ...NO_OWN_FILES,
      write: async () => ({ uri: 'artifact://s/a', version: 1 }),
      blocks: () =>
        Promise.reject(new GatewayError('UNAVAILABLE', 'Redis at 10.0.0.7:6379 is away')),
      soFar: () => Promise.reject(new Error('unused')),
    }),
  }
  await using world = runsOf(() => [{ type: 'done', text: 'Here' }], { files })
  const outcome = await callRuns(world.calls, tool, requestOf('Hi'))
  expect(metaOf(outcome)).toMatchObject({ reason: 'unavailable' })
  expect(JSON.stringify(outcome)).not.toContain('10.0.0.7')
  expect(world.events).toContainEqual(expect.objectContaining({ type: 'failed' }))
})

test('sends progress with the agent, its text and its files before the result', async () => {
  const messages: string[] = []
  const script: Script = () => [
    { type: 'text', text: 'Hel' },
    { type: 'text', text: 'lo' },
    { type: 'file', file: { name: 'a.png', data: new Uint8Array(1) } },
    { type: 'status', text: 'Done: think' },
    { type: 'text', text: '!' },
    { type: 'done' },
  ]
  await using world = runsOf(script, { files: filesOfMemory() })
  const progress = ({ message }: { readonly message: string }) => void messages.push(message)
  const outcome = await callRuns(world.calls, tool, requestOf('Hi', { progress }))
  expect(messages).toEqual(['Accepted by Support', 'Hello', 'File: a.png', 'Done: think', '!'])
  expect(textsOf(outcome)[0]).toBe('Hello!')
  await world.clock.advance(60_000)
  expect(messages).toHaveLength(5)
})

test('shares no objects between two calls', async () => {
  await using world = runsOf(() => [{ type: 'done' }])
  const ada = callRuns(world.calls, tool, requestOf('1', { principal: principalNamed('ada') }))
  await callRuns(world.calls, tool, requestOf('2', { principal: principalNamed('bob') }))
  await ada
  const [first, second] = world.source.calls
  expect(first).not.toBe(second)
  expect(first?.artifacts).not.toBe(second?.artifacts)
  expect([first?.principal.id, second?.principal.id]).toEqual(['ada', 'bob'])
  expect(first?.runId).not.toBe(second?.runId)
})

test('keeps nothing of 10,000 runs, of which half were cancelled', async () => {
  const script: Script = async function* (call) {
    yield { type: 'text', text: 'x'.repeat(1000) }
    if (call.input.kind === 'message' && call.input.text === 'stay') yield* waitingForTheEnd(call)
    yield { type: 'done' }
  }
  await using world = runsOf(script, {
    maxConcurrent: 1000,
    maxConcurrentPerPrincipal: 1000,
    onEvent: () => {},
  })
  world.source.calls.push = () => 0
  const timersBefore = world.clock.pending
  const batch = async (count: number): Promise<void> => {
    const callers = Array.from({ length: count }, () => new AbortController())
    const outcomes = callers.map(({ signal }, index) => {
      const text = index % 2 === 0 ? 'stay' : 'go'
      return callRuns(world.calls, tool, requestOf(text, { signal, progress: () => {} }))
    })
    await settled()
    for (const caller of callers) caller.abort()
    await Promise.all(outcomes)
  }
  await batch(500)
  const before = usedHeap()
  for (let round = 0; round < 19; round += 1) await batch(500)
  expect(world.runs.size).toBe(0)
  expect(world.clock.pending).toBe(timersBefore)
  expect(usedHeap() - before).toBeLessThan(2 * 1024 * 1024)
})

function usedHeap(): number {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  if (typeof collect === 'function') collect()
  return process.memoryUsage().heapUsed
}

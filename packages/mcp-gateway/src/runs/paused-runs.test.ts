import { runsOptions, type GivenRuns } from '../../test/settings.ts'
import { isRecord } from '@x/internal'
import { expect, test } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import {
  principalNamed,
  requestOf,
  ScriptedSource,
  tool,
  type Script,
} from '../../test/scripted-source.ts'
import type { JsonSchema } from '../agents/agent.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { NO_OWN_FILES } from '../../test/runs-world.ts'
import type { AgentUpdate, Question } from '../agents/agent-update.ts'
import type { EarlierFiles, ResultFiles } from '../files/result-files.ts'
import type { RunRequest } from './run-request.ts'
import { Runs } from './runs.ts'
import type { ToolOutcome } from './run-request.ts'

const question: Question = { id: 'q', message: 'Which size?' }

/** Asks as many times as there are lists of questions, then tells what it heard. */
function asking(...rounds: readonly (readonly Question[])[]): Script {
  return ({ resume }): readonly AgentUpdate[] => {
    const heard = resume === undefined ? [] : [...heardBefore(resume.state), resume.answers]
    const questions = rounds[heard.length]
    if (questions !== undefined) return [{ type: 'asked', questions, state: { heard } }]
    return [{ type: 'done', text: JSON.stringify(heard) }]
  }
}

function heardBefore(state: unknown): readonly unknown[] {
  return (state as { heard: readonly unknown[] }).heard
}

/** Two processes with one store. */
function replicas(script: Script, options: Partial<GivenRuns> = {}) {
  const clock = new ManualClock()
  const store = new MemoryGatewayStore({ now: () => clock.now() })
  const source = new ScriptedSource(script)
  const make = (): Runs =>
    new Runs(runsOptions({ agents: source, values: store.values, clock, ...options }))
  const [a, b] = [make(), make()]
  return {
    a,
    b,
    source,
    clock,
    store,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([a.close(), b.close()])
      await store.close()
    },
  }
}

const asked = requestOf('Order', { canAsk: true })

function answering(
  outcome: ToolOutcome,
  responses: Readonly<Record<string, unknown>>,
  over: Partial<RunRequest> = {},
): RunRequest {
  if (outcome.type !== 'input') throw new Error('it did not ask')
  return { ...asked, resume: { state: outcome.state, responses }, ...over }
}

const large = { i0: { action: 'accept', content: { answer: 'large' } } }

function textOf(outcome: ToolOutcome): string | undefined {
  if (outcome.type !== 'result') return undefined
  const [first] = outcome.result.content
  return first?.type === 'text' ? first.text : undefined
}

/** What a client that cannot be asked names the run with. */
function handleIn(outcome: ToolOutcome): string {
  const structured = outcome.type === 'result' ? outcome.result.structuredContent : undefined
  return isRecord(structured) ? String(structured['run']) : ''
}

function reasonOf(outcome: ToolOutcome): unknown {
  return outcome.type === 'result' ? outcome.result['_meta']?.['reason'] : undefined
}

test('a question reaches the caller, and its answer the agent in another process', async () => {
  await using world = replicas(asking([question]))
  const outcome = await world.a.call(tool, asked)
  expect(outcome).toMatchObject({
    type: 'input',
    forms: [{ key: 'i0', message: 'Which size?' }],
    state: { round: 1, tool: 'support' },
  })
  const end = await world.b.call(tool, answering(outcome, large))
  expect(textOf(end)).toBe('[{"q":{"action":"accept","content":{"answer":"large"}}}]')
  expect(world.source.calls[1]?.runId).toBe(world.source.calls[0]?.runId)
})

test('progress goes on counting after an answer: for some clients it is all one call', async () => {
  await using world = replicas(asking([question]))
  const numbers: number[] = []
  const progress = (piece: { readonly progress: number }): void => void numbers.push(piece.progress)
  const outcome = await world.a.call(tool, { ...asked, progress })
  await world.b.call(tool, answering(outcome, large, { progress }))
  expect(numbers).toEqual([1, 2])
})

test('several questions are asked in one round, and rounds follow each other', async () => {
  await using world = replicas(asking([question, { id: 'p', message: 'Paper?' }], [question]))
  const first = await world.a.call(tool, asked)
  expect(first).toMatchObject({ forms: [{ key: 'i0' }, { key: 'i1' }] })
  const second = await world.b.call(tool, answering(first, { i0: 'large', i1: 'A4' }))
  expect(second).toMatchObject({ type: 'input', state: { round: 2 } })
  expect(textOf(await world.a.call(tool, answering(second, { i0: 'small' })))).toContain('small')
})

test('an answer that is sent twice is executed once, and gets the same outcome', async () => {
  await using world = replicas(asking([question]))
  const outcome = await world.a.call(tool, asked)
  const request = answering(outcome, large)
  const [one, two] = await Promise.all([world.a.call(tool, request), world.a.call(tool, request)])
  const three = await world.b.call(tool, request)
  expect(two).toEqual(one)
  expect(three).toEqual(one)
  expect(world.source.calls).toHaveLength(2)
})

test('two processes that get one answer at the same time execute it once', async () => {
  await using world = replicas(asking([question]))
  const request = answering(await world.a.call(tool, asked), large)
  await Promise.all([world.a.call(tool, request), world.b.call(tool, request)])
  expect(world.source.calls).toHaveLength(2)
})

test('a late answer to an older round changes nothing', async () => {
  await using world = replicas(asking([question], [{ id: 'sure', message: 'Sure?' }]))
  const first = await world.a.call(tool, asked)
  const second = await world.a.call(tool, answering(first, large))
  expect(await world.b.call(tool, answering(first, large))).toEqual(second)
  const other = await world.b.call(tool, answering(first, { i0: 'small' }))
  expect(reasonOf(other)).toBe('already_answered')
  expect(world.source.calls).toHaveLength(2)
})

function choiceOf(...choices: readonly string[]): JsonSchema {
  return {
    type: 'object',
    properties: { paper: { type: 'string', enum: choices } },
    required: ['paper'],
  }
}

test('a missing or invalid answer is asked for again', async () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer', minimum: 1 } },
    required: ['n'],
  }
  await using world = replicas(asking([{ id: 'n', message: 'How many?', schema }]))
  const first = await world.a.call(tool, asked)
  const wrong = { i0: { action: 'accept', content: { n: 0 } } }
  const again = await world.a.call(tool, answering(first, wrong))
  expect(again).toMatchObject({
    forms: [{ message: 'How many?\n(The answer does not match the schema: /n must be >= 1.)' }],
  })
  expect(await world.a.call(tool, answering(again, {}))).toMatchObject({ type: 'input' })
  const right = { i0: { action: 'accept', content: { n: 2 } } }
  expect(textOf(await world.b.call(tool, answering(again, right)))).toContain('"n":2')
  expect(world.source.calls).toHaveLength(2)
})

test('of several questions only those are asked again that have no good answer', async () => {
  const choice = { id: 'p', message: 'Paper?', schema: choiceOf('A4', 'A5') }
  await using world = replicas(asking([question, choice, { ...question, id: 'r' }]))
  const first = await world.a.call(tool, asked)
  const wrong = { ...large, i1: { action: 'accept', content: { paper: 'A6' } } }
  const again = await world.a.call(tool, answering(first, wrong))
  expect(again).toMatchObject({ forms: [{ key: 'i1' }, { key: 'i2' }] })
  const text = await world.b.call(tool, answering(again, {}, { canAsk: false }))
  expect(textOf(text)).not.toContain('i0')
  const right = { i1: { action: 'accept', content: { paper: 'A4' } }, i2: 'small' }
  const end = await world.b.call(tool, answering(again, right))
  expect(JSON.parse(textOf(end) ?? '')).toEqual([
    {
      q: { action: 'accept', content: { answer: 'large' } },
      p: { action: 'accept', content: { paper: 'A4' } },
      r: { action: 'accept', content: { answer: 'small' } },
    },
  ])
  expect(await world.a.call(tool, answering(again, right))).toEqual(end)
  expect(world.source.calls).toHaveLength(2)
})

test('a good answer stays when the others find no free slot', async () => {
  await using world = replicas(asking([question, { ...question, id: 'r' }]), {
    maxConcurrent: 0,
    maxQueued: 0,
  })
  const free = new Runs(
    runsOptions({ agents: world.source, values: world.store.values, clock: world.clock }),
  )
  const first = await free.call(tool, asked)
  const again = await free.call(tool, answering(first, large))
  const rest = answering(again, { i1: 'small' })
  expect(reasonOf(await world.a.call(tool, rest))).toBe('busy')
  expect(textOf(await free.call(tool, rest))).toContain('large')
  await free.close()
})

test.each(['decline', 'cancel'] as const)(
  'a person who says %s ends the run, without an error',
  async (action) => {
    await using world = replicas(asking([question]))
    const outcome = await world.a.call(tool, asked)
    const end = await world.b.call(tool, answering(outcome, { i0: { action } }))
    expect(end).toMatchObject({ type: 'result', result: { _meta: { reason: action } } })
    expect(end).not.toMatchObject({ result: { isError: true } })
    expect(world.source.forgotten).toEqual([{ heard: [] }])
    expect(world.source.calls).toHaveLength(1)
  },
)

test('a person who refuses one of several questions is not asked for the others', async () => {
  await using world = replicas(asking([question, { id: 'p', message: 'Paper?' }]))
  const outcome = await world.a.call(tool, asked)
  const end = await world.b.call(tool, answering(outcome, { i1: { action: 'decline' } }))
  expect(end).toMatchObject({ type: 'result', result: { _meta: { reason: 'decline' } } })
  expect(world.source.calls).toHaveLength(1)
})

test('an agent that wants to hear "no" hears it', async () => {
  await using world = replicas(asking([{ ...question, takesRefusal: true }]))
  const outcome = await world.a.call(tool, asked)
  const end = await world.b.call(tool, answering(outcome, { i0: { action: 'decline' } }))
  expect(textOf(end)).toBe('[{"q":{"action":"decline"}}]')
})

test('nobody else can answer, and nobody learns that there is a question', async () => {
  await using world = replicas(asking([question]))
  const outcome = await world.a.call(tool, asked)
  const other = answering(outcome, large, { principal: principalNamed('eve') })
  expect(reasonOf(await world.a.call(tool, other))).toBe('expired')
  const elsewhere = { ...tool, skill: { ...tool.skill, id: 'other' } }
  expect(reasonOf(await world.a.call(elsewhere, answering(outcome, large)))).toBe('expired')
  const changed = answering(outcome, large, { arguments: { message: 'Something else' } })
  expect(reasonOf(await world.a.call(tool, changed))).toBe('invalid_arguments')
  expect(textOf(await world.a.call(tool, answering(outcome, large)))).toContain('large')
})

test('a client that cannot ask gets the question as text, and answers by `resume`', async () => {
  await using world = replicas(asking([question]))
  const outcome = await world.a.call(tool, requestOf('Order'))
  expect(outcome).toMatchObject({
    result: {
      structuredContent: {
        status: 'needs_input',
        questions: [{ key: 'i0', message: 'Which size?' }],
      },
      _meta: { reason: 'needs_input' },
    },
  })
  expect(textOf(outcome)).toContain('Which size?')
  const run = handleIn(outcome)
  expect(run).toContain(`${world.source.calls[0]?.runId}.1.`)
  expect(textOf(outcome)).toContain(run)
  const resume = { state: { run }, responses: { i0: { answer: 'large' } } }
  const alone = requestOf('', { arguments: undefined, input: undefined, resume })
  expect(textOf(await world.b.call(tool, alone))).toContain('"answer":"large"')
})

test('the id of a run, which logs show, is not enough to answer it', async () => {
  await using world = replicas(asking([question]))
  const run = handleIn(await world.a.call(tool, requestOf('Order')))
  const [id, round, key = ''] = run.split('.')
  expect(key).toMatch(/^[0-9a-f]{16}$/)
  for (const guess of [`${id}.${round}`, `${id}.${round}.`, `${id}.${round}.${'0'.repeat(16)}`]) {
    const resume = { state: { run: guess }, responses: { i0: 'large' } }
    const refused = await world.a.call(tool, requestOf('Order', { resume }))
    expect(reasonOf(refused)).toMatch(/expired|invalid_arguments/)
  }
  expect(world.source.calls).toHaveLength(1)
  const resume = { state: { run }, responses: { i0: 'large' } }
  expect(textOf(await world.a.call(tool, requestOf('Order', { resume })))).toContain('large')
})

test('an answer by `resume` that is given twice is no answer to the next question', async () => {
  await using world = replicas(asking([question], [{ id: 'sure', message: 'Sure?' }]))
  const run = handleIn(await world.a.call(tool, requestOf('Order')))
  const resume = { state: { run }, responses: { i0: 'yes' } }
  const second = await world.a.call(tool, requestOf('Order', { resume }))
  expect(textOf(second)).toContain('Sure?')
  expect(await world.b.call(tool, requestOf('Order', { resume }))).toEqual(second)
  expect(world.source.calls).toHaveLength(2)
})

test.each([
  [{ action: 'approve' }, '{"action":"approve"}'],
  [{ action: 'decline' }, '{"action":"decline"}'],
  [{ action: 'accept', content: { action: 'approve' } }, '{"action":"approve"}'],
  [{ action: 'cancel' }, 'cancelled the question'],
])(
  'by `resume`, a field `action` of the schema is what the agent asked for: %j',
  async (i0, text) => {
    const action = { type: 'string', enum: ['approve', 'decline'] }
    const schema = { type: 'object', properties: { action }, required: ['action'] }
    await using world = replicas(asking([{ id: 'q', message: 'Pay?', schema }]))
    const run = handleIn(await world.a.call(tool, requestOf('Order')))
    const resume = { state: { run }, responses: { i0 } }
    expect(textOf(await world.b.call(tool, requestOf('Order', { resume })))).toContain(text)
  },
)

test('a decline is answered although the agent hangs when it is told to forget the run', async () => {
  await using world = replicas(asking([question]))
  const forgotten: string[] = []
  Object.assign(world.source, {
    forget: (agentId: string) => {
      forgotten.push(agentId)
      return new Promise<void>(() => undefined)
    },
  })
  const outcome = await world.a.call(tool, asked)
  const end = await world.b.call(tool, answering(outcome, { i0: { action: 'decline' } }))
  expect(reasonOf(end)).toBe('decline')
  expect(forgotten).toEqual(['support'])
})

test('an elicitation that is declined is declined, whatever fields its form has', async () => {
  const schema = { type: 'object', properties: { action: { type: 'string' } } }
  await using world = replicas(asking([{ id: 'q', message: 'Pay?', schema }]))
  const outcome = await world.a.call(tool, asked)
  const end = await world.b.call(tool, answering(outcome, { i0: { action: 'decline' } }))
  expect(reasonOf(end)).toBe('decline')
})

test('without the store an answer is not lost', async () => {
  await using world = replicas(asking([question]))
  const outcome = await world.a.call(tool, asked)
  const get = world.store.values.get.bind(world.store.values)
  world.store.values.get = () => Promise.reject(new Error('connection refused'))
  expect(reasonOf(await world.a.call(tool, answering(outcome, large)))).toBe('unavailable')
  world.store.values.get = get
  expect(textOf(await world.a.call(tool, answering(outcome, large)))).toContain('large')
})

test('of a process that died in the middle of a run, the answer says so, and runs nothing again', async () => {
  const never = new Promise<never>(() => {})
  await using world = replicas(async function* ({ resume }) {
    if (resume === undefined) yield { type: 'asked', questions: [question], state: {} }
    else await never
  })
  const outcome = await world.a.call(tool, asked)
  // The process of this one is gone with all that it would have done: only the row tells of it.
  const dead = new Runs(
    runsOptions({
      agents: world.source,
      values: world.store.values,
      clock: new ManualClock(),
      stopGraceMs: 0,
    }),
  )
  void dead.call(tool, answering(outcome, large))
  await settled()
  expect(reasonOf(await world.b.call(tool, answering(outcome, large)))).toBe('busy')
  await world.clock.advance(420_000)
  const late = await world.b.call(tool, answering(outcome, large))
  expect(reasonOf(late)).toBe('agent_failed')
  expect(textOf(late)).toContain('The process that continued this run died')
  expect(world.source.calls).toHaveLength(2)
})

test('a question that nobody answers is forgotten, with what the agent kept for it', async () => {
  await using world = replicas(asking([question]), { needsInputTtlMs: 3_600_000 })
  const outcome = await world.a.call(tool, asked)
  await world.clock.advance(3_540_000)
  expect(world.source.forgotten).toEqual([])
  await world.clock.advance(120_000)
  expect(world.source.forgotten).toEqual([{ heard: [] }])
  expect(reasonOf(await world.b.call(tool, answering(outcome, large)))).toBe('expired')
  await world.clock.advance(3_600_000)
  await settled()
  expect(await world.store.values.list('')).toEqual([])
})

test('an answer that found no free slot can be given again', async () => {
  await using world = replicas(asking([question]), { maxConcurrent: 0, maxQueued: 0 })
  const free = new Runs(
    runsOptions({ agents: world.source, values: world.store.values, clock: world.clock }),
  )
  const outcome = await free.call(tool, asked)
  expect(reasonOf(await world.a.call(tool, answering(outcome, large)))).toBe('busy')
  expect(textOf(await free.call(tool, answering(outcome, large)))).toContain('large')
  await free.close()
})

test('files of before the question are in the result of a run that fails after it, too', async () => {
  const link = { type: 'resource_link' as const, uri: 'artifact://s/a', name: 'a' }
  const earlier: EarlierFiles = { blocks: [link], shown: ['a'], scope: 's' }
  const opened: (EarlierFiles | undefined)[] = []
  const files: ResultFiles = {
    open: (run) => {
      opened.push(run.earlier)
      return {
        ...NO_OWN_FILES,
        write: () => Promise.reject(new Error('unused')),
        blocks: async () => run.earlier?.blocks ?? [],
        soFar: async () => earlier,
      }
    },
  }
  await using world = replicas(
    ({ resume }) =>
      resume
        ? [{ type: 'failed', reason: 'The printer is on fire' }]
        : [{ type: 'asked', questions: [question], state: { heard: [] } }],
    { files },
  )
  const outcome = await world.a.call(tool, asked)
  const end = await world.b.call(tool, answering(outcome, large))
  expect(opened).toEqual([undefined, earlier])
  expect(end).toMatchObject({
    result: { isError: true, content: [{ text: expect.stringContaining('on fire') }, link] },
  })
})

test('a run that nobody asked about leaves nothing in the store', async () => {
  await using world = replicas(() => [{ type: 'done', text: 'Hello' }])
  await world.a.call(tool, asked)
  expect(await world.store.values.list('')).toEqual([])
})

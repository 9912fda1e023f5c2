import { callsOf } from '../../test/settings.ts'
import { isRecord } from '@x/internal'
import { expect, test, vi } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import {
  principalNamed,
  callRuns,
  type CallRequest,
  requestOf,
  tool,
  type Script,
} from '../../test/scripted-source.ts'
import type { AgentUpdate, JsonSchema, Question } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import { NO_OWN_FILES, reasonOf, replicas } from '../../test/runs-world.ts'
import type { EarlierFiles, ResultFiles } from '../files/result-files.ts'
import type { ToolOutcome } from './order.ts'

const question: Question = { id: 'q', message: 'Which size?' }

/** Asks once for each list of questions, then returns the answers. */
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

const asked = requestOf('Order', { canAsk: true })

function answering(
  outcome: ToolOutcome,
  responses: Readonly<Record<string, unknown>>,
  over: Partial<CallRequest> = {},
): CallRequest {
  if (outcome.type !== 'input') throw new Error('it did not ask')
  return { ...asked, resume: { state: outcome.state, responses }, ...over }
}

const large = { i0: { action: 'accept', content: { answer: 'large' } } }

function textOf(outcome: ToolOutcome): string | undefined {
  if (outcome.type !== 'result') return undefined
  const [first] = outcome.result.content
  return first?.type === 'text' ? first.text : undefined
}

/** The `run` of the `resume` argument, for a client without forms. */
function handleIn(outcome: ToolOutcome): string {
  const structured = outcome.type === 'result' ? outcome.result.structuredContent : undefined
  return isRecord(structured) ? String(structured['run']) : ''
}

test('returns a question to the caller, and gives its answer to the agent in another process', async () => {
  await using world = replicas(asking([question]))
  const outcome = await callRuns(world.a, tool, asked)
  expect(outcome).toMatchObject({
    type: 'input',
    forms: [{ key: 'i0', message: 'Which size?' }],
    state: { round: 1, tool: 'support' },
  })
  const end = await callRuns(world.b, tool, answering(outcome, large))
  expect(textOf(end)).toBe('[{"q":{"action":"accept","content":{"answer":"large"}}}]')
  expect(world.source.calls[1]?.runId).toBe(world.source.calls[0]?.runId)
})

test('continues the numbers of progress after an answer', async () => {
  await using world = replicas(asking([question]))
  const numbers: number[] = []
  const progress = (piece: { readonly progress: number }): void => void numbers.push(piece.progress)
  const outcome = await callRuns(world.a, tool, { ...asked, progress })
  await callRuns(world.b, tool, answering(outcome, large, { progress }))
  expect(numbers).toEqual([1, 2])
})

test('asks several questions in one round, and several rounds', async () => {
  await using world = replicas(asking([question, { id: 'p', message: 'Paper?' }], [question]))
  const first = await callRuns(world.a, tool, asked)
  expect(first).toMatchObject({ forms: [{ key: 'i0' }, { key: 'i1' }] })
  const second = await callRuns(world.b, tool, answering(first, { i0: 'large', i1: 'A4' }))
  expect(second).toMatchObject({ type: 'input', state: { round: 2 } })
  expect(textOf(await callRuns(world.a, tool, answering(second, { i0: 'small' })))).toContain(
    'small',
  )
})

test('executes an answer once that is sent at once and later, to both processes', async () => {
  await using world = replicas(asking([question]))
  const request = answering(await callRuns(world.a, tool, asked), large)
  const sent = Promise.all([world.a, world.a, world.b].map((at) => callRuns(at, tool, request)))
  await settled()
  await world.clock.advance(500)
  const [one, ...others] = await sent
  expect(others).toEqual([one, one])
  expect(await callRuns(world.b, tool, request)).toEqual(one)
  expect(world.source.calls).toHaveLength(2)
})

test('ignores a late answer to an older round', async () => {
  await using world = replicas(asking([question], [{ id: 'sure', message: 'Sure?' }]))
  const first = await callRuns(world.a, tool, asked)
  const second = await callRuns(world.a, tool, answering(first, large))
  expect(await callRuns(world.b, tool, answering(first, large))).toEqual(second)
  const other = await callRuns(world.b, tool, answering(first, { i0: 'small' }))
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

test('asks again for a missing or invalid answer', async () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer', minimum: 1 } },
    required: ['n'],
  }
  await using world = replicas(asking([{ id: 'n', message: 'How many?', schema }]))
  const first = await callRuns(world.a, tool, asked)
  const wrong = { i0: { action: 'accept', content: { n: 0 } } }
  const again = await callRuns(world.a, tool, answering(first, wrong))
  expect(again).toMatchObject({
    forms: [{ message: 'How many?\n(The answer does not match the schema: /n must be >= 1.)' }],
  })
  expect(await callRuns(world.a, tool, answering(again, {}))).toMatchObject({ type: 'input' })
  const right = { i0: { action: 'accept', content: { n: 2 } } }
  expect(textOf(await callRuns(world.b, tool, answering(again, right)))).toContain('"n":2')
  expect(world.source.calls).toHaveLength(2)
})

test('asks only those questions again whose answers were not accepted', async () => {
  const choice = { id: 'p', message: 'Paper?', schema: choiceOf('A4', 'A5') }
  await using world = replicas(asking([question, choice, { ...question, id: 'r' }]))
  const first = await callRuns(world.a, tool, asked)
  const wrong = { ...large, i1: { action: 'accept', content: { paper: 'A6' } } }
  const again = await callRuns(world.a, tool, answering(first, wrong))
  expect(again).toMatchObject({ forms: [{ key: 'i1' }, { key: 'i2' }] })
  const text = await callRuns(world.b, tool, answering(again, {}, { canAsk: false }))
  expect(textOf(text)).not.toContain('i0')
  const right = { i1: { action: 'accept', content: { paper: 'A4' } }, i2: 'small' }
  const end = await callRuns(world.b, tool, answering(again, right))
  expect(JSON.parse(textOf(end) ?? '')).toEqual([
    {
      q: { action: 'accept', content: { answer: 'large' } },
      p: { action: 'accept', content: { paper: 'A4' } },
      r: { action: 'accept', content: { answer: 'small' } },
    },
  ])
  expect(await callRuns(world.a, tool, answering(again, right))).toEqual(end)
  expect(world.source.calls).toHaveLength(2)
})

test('keeps an accepted answer when the others find no free slot', async () => {
  await using world = replicas(asking([question, { ...question, id: 'r' }]), {
    maxConcurrent: 0,
  })
  const free = callsOf({ agents: world.source, records: world.store.records, clock: world.clock })
  const first = await callRuns(free, tool, asked)
  const again = await callRuns(free, tool, answering(first, large))
  const rest = answering(again, { i1: 'small' })
  const queued = callRuns(world.a, tool, rest)
  await settled()
  await world.clock.advance(30_000)
  expect(reasonOf(await queued)).toBe('busy')
  expect(textOf(await callRuns(free, tool, rest))).toContain('large')
  await free.close()
})

test.each(['decline', 'cancel'] as const)(
  'ends the run without an error, and without its other questions, when the user says %s',
  async (action) => {
    await using world = replicas(asking([question, { id: 'p', message: 'Paper?' }]))
    const outcome = await callRuns(world.a, tool, asked)
    const end = await callRuns(world.b, tool, answering(outcome, { i1: { action } }))
    expect(end).toMatchObject({ type: 'result', result: { _meta: { reason: action } } })
    expect(end).not.toMatchObject({ result: { isError: true } })
    expect(world.source.forgotten).toEqual([{ heard: [] }])
    expect(world.source.calls).toHaveLength(1)
  },
)

test('gives a refusal to an agent that takes refusals', async () => {
  await using world = replicas(asking([{ ...question, takesRefusal: true }]))
  const outcome = await callRuns(world.a, tool, asked)
  const end = await callRuns(world.b, tool, answering(outcome, { i0: { action: 'decline' } }))
  expect(textOf(end)).toBe('[{"q":{"action":"decline"}}]')
})

test('gives other callers the answer of an unknown run', async () => {
  await using world = replicas(asking([question]))
  const outcome = await callRuns(world.a, tool, asked)
  const other = answering(outcome, large, { principal: principalNamed('eve') })
  expect(reasonOf(await callRuns(world.a, tool, other))).toBe('expired')
  const elsewhere = { ...tool, skill: { ...tool.skill, id: 'other' } }
  expect(reasonOf(await callRuns(world.a, elsewhere, answering(outcome, large)))).toBe('expired')
  const changed = answering(outcome, large, { arguments: { message: 'Something else' } })
  expect(reasonOf(await callRuns(world.a, tool, changed))).toBe('invalid_arguments')
  expect(textOf(await callRuns(world.a, tool, answering(outcome, large)))).toContain('large')
})

test('refuses a `resume` that has only the id of the run, which is in logs', async () => {
  await using world = replicas(asking([question]))
  const run = handleIn(await callRuns(world.a, tool, requestOf('Order')))
  const [id, round, key = ''] = run.split('.')
  expect(key).toMatch(/^[0-9a-f]{16}$/)
  for (const guess of [`${id}.${round}`, `${id}.${round}.`, `${id}.${round}.${'0'.repeat(16)}`]) {
    const resume = { state: { run: guess }, responses: { i0: 'large' } }
    const refused = await callRuns(world.a, tool, requestOf('Order', { resume }))
    expect(reasonOf(refused)).toMatch(/expired|invalid_arguments/)
  }
  expect(world.source.calls).toHaveLength(1)
  const resume = { state: { run }, responses: { i0: 'large' } }
  expect(textOf(await callRuns(world.a, tool, requestOf('Order', { resume })))).toContain('large')
})

test('does not take a repeated `resume` as the answer to the next question', async () => {
  await using world = replicas(asking([question], [{ id: 'sure', message: 'Sure?' }]))
  const run = handleIn(await callRuns(world.a, tool, requestOf('Order')))
  const resume = { state: { run }, responses: { i0: 'yes' } }
  const second = await callRuns(world.a, tool, requestOf('Order', { resume }))
  expect(textOf(second)).toContain('Sure?')
  expect(await callRuns(world.b, tool, requestOf('Order', { resume }))).toEqual(second)
  expect(world.source.calls).toHaveLength(2)
})

test.each([
  [{ action: 'approve' }, '{"action":"approve"}'],
  [{ action: 'decline' }, '{"action":"decline"}'],
  [{ action: 'accept', content: { action: 'approve' } }, '{"action":"approve"}'],
  [{ action: 'cancel' }, 'cancelled the question'],
])('reads a field `action` of the schema in `resume`: %j', async (i0, text) => {
  const action = { type: 'string', enum: ['approve', 'decline'] }
  const schema = { type: 'object', properties: { action }, required: ['action'] }
  await using world = replicas(asking([{ id: 'q', message: 'Pay?', schema }]))
  const run = handleIn(await callRuns(world.a, tool, requestOf('Order')))
  const resume = { state: { run }, responses: { i0 } }
  expect(textOf(await callRuns(world.b, tool, requestOf('Order', { resume })))).toContain(text)
})

test('answers a decline even if the agent hangs while it deletes its state', async () => {
  await using world = replicas(asking([question]))
  const forgotten: string[] = []
  Object.assign(world.source, {
    forget: (agentId: string) => {
      forgotten.push(agentId)
      return new Promise<void>(() => undefined)
    },
  })
  const outcome = await callRuns(world.a, tool, asked)
  const end = await callRuns(world.b, tool, answering(outcome, { i0: { action: 'decline' } }))
  expect(reasonOf(end)).toBe('decline')
  expect(forgotten).toEqual(['support'])
})

test('reads a declined elicitation as a decline, whatever fields its form has', async () => {
  const schema = { type: 'object', properties: { action: { type: 'string' } } }
  await using world = replicas(asking([{ id: 'q', message: 'Pay?', schema }]))
  const outcome = await callRuns(world.a, tool, asked)
  const end = await callRuns(world.b, tool, answering(outcome, { i0: { action: 'decline' } }))
  expect(reasonOf(end)).toBe('decline')
})

test('answers `unavailable` while the store is down, and takes the same answer later', async () => {
  await using world = replicas(asking([question]))
  const outcome = await callRuns(world.a, tool, asked)
  const get = world.store.records.get.bind(world.store.records)
  world.store.records.get = () => Promise.reject(new GatewayError('UNAVAILABLE', 'Redis is down'))
  expect(reasonOf(await callRuns(world.a, tool, answering(outcome, large)))).toBe('unavailable')
  world.store.records.get = get
  expect(textOf(await callRuns(world.a, tool, answering(outcome, large)))).toContain('large')
})

test('gives an answer to the agent once that was stored, although the store said that it was away', async () => {
  await using world = replicas(asking([question]))
  const { records } = world.store
  const outcome = await callRuns(world.a, tool, asked)
  const put = records.put.bind(records)
  const away = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    await put(key, ...entry)
    if (key.startsWith('call:')) throw new GatewayError('UNAVAILABLE', 'The answer is lost')
    return 'written'
  })
  expect(reasonOf(await callRuns(world.a, tool, answering(outcome, large)))).toBe('unavailable')
  away.mockRestore()
  const again = [1, 2].map(() => callRuns(world.a, tool, answering(outcome, large)))
  for (const end of await Promise.all(again)) expect(textOf(end)).toContain('large')
  expect(world.source.calls).toHaveLength(2)
})

test('answers `outcome_unknown` after the process of a continued run died, and runs nothing again', async () => {
  const never = new Promise<never>(() => {})
  await using world = replicas(async function* ({ resume }) {
    if (resume === undefined) yield { type: 'asked', questions: [question], state: { heard: [] } }
    else await never
  })
  const outcome = await callRuns(world.a, tool, asked)
  // The process of this run is dead. Only the record is left.
  const dead = callsOf({
    agents: world.source,
    records: world.store.records,
    clock: new ManualClock(),
    stopGraceMs: 0,
  })
  void callRuns(dead, tool, answering(outcome, large))
  await settled()
  const waiting = callRuns(world.b, tool, answering(outcome, large))
  await settled()
  await world.clock.advance(5000)
  expect(reasonOf(await waiting)).toBe('outcome_unknown')
  const late = await callRuns(world.a, tool, answering(outcome, large))
  expect(textOf(late)).toContain('The process that executed this call died')
  expect(world.source.calls).toHaveLength(2)
  // The process may be frozen: then its agent still uses its state.
  expect(world.source.forgotten).toEqual([])
  await world.clock.advance(90_000_000)
  expect(world.source.forgotten).toEqual([{ heard: [] }])
})

test('deletes the state of the agent if a process dies while it stores the end of a question', async () => {
  await using world = replicas(asking([question]))
  const { records } = world.store
  const put = records.put.bind(records)
  const outcome = await callRuns(world.a, tool, asked)
  const dying = vi.spyOn(records, 'put').mockImplementation(async (key, ...entry) => {
    if (key.startsWith('call:')) throw new GatewayError('UNAVAILABLE', 'The process dies')
    return put(key, ...entry)
  })
  const declined = answering(outcome, { i0: { action: 'decline' } })
  expect(reasonOf(await callRuns(world.a, tool, declined))).toBe('unavailable')
  dying.mockRestore()
  await world.clock.advance(3_720_000)
  expect(world.source.forgotten).toEqual([{ heard: [] }])
})

test('deletes a question that nobody answers, and the state of the agent', async () => {
  await using world = replicas(asking([question]), { needsInputTtlMs: 3_600_000 })
  const outcome = await callRuns(world.a, tool, asked)
  await world.clock.advance(3_540_000)
  expect(world.source.forgotten).toEqual([])
  await world.clock.advance(120_000)
  expect(world.source.forgotten).toEqual([{ heard: [] }])
  expect(reasonOf(await callRuns(world.b, tool, answering(outcome, large)))).toBe('expired')
  await world.clock.advance(86_400_000)
  await settled()
  expect(await world.store.records.list('')).toEqual([])
})

test('returns the files of earlier rounds in the result of a run that fails later', async () => {
  const link = { type: 'resource_link' as const, uri: 'artifact://s/a', name: 'a' }
  const earlier: EarlierFiles = { blocks: [link], shown: ['a'], scope: 's' }
  const opened: (EarlierFiles | undefined)[] = []
  const files: ResultFiles = {
    input: async () => [],
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
  const outcome = await callRuns(world.a, tool, asked)
  const end = await callRuns(world.b, tool, answering(outcome, large))
  expect(opened).toEqual([undefined, earlier])
  expect(end).toMatchObject({
    result: { isError: true, content: [{ text: expect.stringContaining('on fire') }, link] },
  })
})

test('stores nothing for a run without questions', async () => {
  await using world = replicas(() => [{ type: 'done', text: 'Hello' }])
  await callRuns(world.a, tool, asked)
  expect(await world.store.records.list('')).toEqual([])
})

/** Asks without end. */
const nagging: Script = ({ resume }) => {
  const count = resume === undefined ? 1 : heardBefore(resume.state).length + 1
  const heard = Array.from({ length: count }, () => 'large')
  return [{ type: 'asked', questions: [question], state: { heard } }]
}

test.each([
  ['a client with forms', true],
  ['a model that calls again with `resume`', false],
])('stops an agent that asks without end, for %s', async (_, canAsk) => {
  await using world = replicas(nagging)
  let request: CallRequest = { ...asked, canAsk }
  let outcome = await callRuns(world.a, tool, request)
  let answers = 0
  while (answers < 30 && ['input', 'needs_input'].includes(String(reasonOf(outcome)))) {
    const resume = { state: { run: handleIn(outcome) }, responses: { i0: { answer: 'large' } } }
    request = canAsk ? answering(outcome, large) : { ...asked, canAsk, resume }
    answers += 1
    // Each answer may reach another process.
    outcome = await callRuns(answers % 2 === 0 ? world.a : world.b, tool, request)
  }
  expect(answers).toBe(8)
  expect(outcome).toMatchObject({
    result: { isError: true, _meta: { reason: 'too_many_questions' } },
  })
  expect(textOf(outcome)).toContain('more than 8 times')
  expect(world.source.forgotten).toHaveLength(1)
  expect(await callRuns(world.a, tool, request)).toEqual(outcome)
  expect(world.source.calls).toHaveLength(9)
})

test('stops a call whose answers never fit, and not one that is answered in parts', async () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
  }
  const questions = Array.from({ length: 12 }, (_, index) => ({
    id: `q${index}`,
    message: '?',
    schema,
  }))
  await using world = replicas(asking(questions))
  const first = await callRuns(world.a, tool, asked)
  for (let index = 0; index < 11; index++) {
    const part = { [`i${index}`]: { action: 'accept', content: { n: index } } }
    expect((await callRuns(world.b, tool, answering(first, part))).type).toBe('input')
  }
  const wrong = answering(first, { i11: { action: 'accept', content: { n: 'many' } } })
  for (let count = 0; count < 7; count++) {
    expect((await callRuns(world.a, tool, wrong)).type).toBe('input')
  }
  const end = await callRuns(world.b, tool, wrong)
  expect(reasonOf(end)).toBe('too_many_questions')
  expect(textOf(end)).toContain('do not fit the questions')
  expect(await callRuns(world.a, tool, wrong)).toEqual(end)
  expect(world.source.calls).toHaveLength(1)
  expect(world.source.forgotten).toHaveLength(1)
})

test('does not advise `resume` where the tool has no such parameter', async () => {
  await using world = replicas(asking([question]))
  const outcome = await callRuns(world.a, { ...tool, takesResume: false }, requestOf('Order'))
  expect(outcome).toMatchObject({
    result: { isError: true, _meta: { reason: 'needs_input' } },
  })
  expect(textOf(outcome)).toContain('Which size?')
  expect(textOf(outcome)).toContain('call again with the answer in the arguments')
  expect(textOf(outcome)).not.toContain('resume')
})

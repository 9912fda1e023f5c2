import { expect, test } from 'vitest'

import { requestOf } from '../../test/scripted-source.ts'
import {
  newTask,
  nextTask,
  parseTask,
  roundAnswers,
  toDetailedTask,
  toTaskFields,
  type Task,
  type TaskEvent,
} from './task.ts'

const {
  canAsk,
  canVisit,
  knowsChoices,
  signal: _signal,
  progress: _progress,
  ...rest
} = requestOf('Hi')
const order: Task['order'] = { ...rest, client: { canAsk, canVisit, knowsChoices } }
const facts = { taskId: 'task_1', tool: 'echo', order, process: 'a', expiresAt: 9000 }
const question = {
  method: 'elicitation/create',
  params: { message: 'Who?', requestedSchema: { type: 'object', properties: {} } },
} as const
const yes = { action: 'accept', content: {} }

const asked: TaskEvent = {
  type: 'asked',
  attempt: 1,
  questions: { i0: question, i1: question },
  state: { runId: 'run_1' },
  expiresAt: 20_000,
}
const answers = (...keys: readonly string[]): TaskEvent => ({
  type: 'answered',
  responses: Object.fromEntries(keys.map((key) => [key, yes])),
  process: 'b',
})
const ended = (attempt: number): TaskEvent => {
  return { type: 'ended', attempt, result: { content: [] }, expiresAt: 30_000 }
}
const failed: TaskEvent = { type: 'failed', attempt: 1, error: { code: -32_603, message: 'No' } }
const claimed: TaskEvent = { type: 'claimed', process: 'b' }
const released = (attempt: number): TaskEvent => ({ type: 'released', attempt })
const cancelled: TaskEvent = { type: 'cancelled' }

/** The task after these events, the first of which comes after one millisecond. */
function after(...events: readonly TaskEvent[]): Task {
  return events.reduce(
    (task, event, index) => nextTask(task, event, 1001 + index),
    newTask(facts, 1000),
  )
}

test.each<[string, readonly TaskEvent[], object]>([
  ['is accepted', [], { status: 'working', attempt: 1, expiresAt: 9000 }],
  ['reports a step', [{ type: 'progress', attempt: 1, message: 'On it' }], { message: 'On it' }],
  ['asks', [asked], { status: 'input_required', round: 1, attempt: 1, expiresAt: 20_000 }],
  ['gets one of two answers', [asked, answers('1.i0')], { status: 'input_required', attempt: 1 }],
  [
    'gets the last answer',
    [asked, answers('1.i0'), answers('1.i1')],
    { status: 'working', attempt: 2, process: 'b' },
  ],
  ['is executed again', [claimed, claimed], { attempt: 3, claims: 3 }],
  ['is left by its process', [claimed, claimed, released(3)], { attempt: 3, claims: 1 }],
  ['ends', [ended(1)], { status: 'completed', expiresAt: 30_000 }],
  ['ends after an answer', [asked, answers('1.i0', '1.i1'), ended(2)], { status: 'completed' }],
  ['fails', [failed], { status: 'failed', error: { message: 'No' } }],
  ['is cancelled', [cancelled], { status: 'cancelled' }],
  ['is cancelled while it asks', [asked, cancelled], { status: 'cancelled', questions: {} }],
])('a task that %s', (_, events, expected) => {
  expect(after(...events)).toMatchObject({ ...expected, updatedAt: 1000 + events.length })
})

test.each<[string, readonly TaskEvent[], TaskEvent]>([
  ['the end of an earlier execution', [asked, answers('1.i0', '1.i1')], ended(1)],
  ['a failure of an earlier execution', [asked, answers('1.i0', '1.i1')], failed],
  ['the end of an execution that asked', [asked], ended(1)],
  ['progress while it asks', [asked], { type: 'progress', attempt: 1, message: 'late' }],
  ['an answer to an unknown question', [asked], answers('2.i0')],
  ['a second answer to one question', [asked, answers('1.i0')], answers('1.i0')],
  ['an answer while it works', [], answers('1.i0')],
  [
    'an answer that is not an object',
    [asked],
    { type: 'answered', responses: { '1.i0': 'yes' }, process: 'b' },
  ],
  ['an earlier process that leaves it', [claimed, claimed], released(2)],
  ['a result after it was cancelled', [cancelled], ended(1)],
  ['a cancellation after its end', [ended(1)], cancelled],
  ['a question after it failed', [failed], asked],
])('nothing is changed by %s', (_, events, late) => {
  const task = after(...events)
  expect(nextTask(task, late, 5000)).toBe(task)
})

test('never uses the key of a question twice', () => {
  const again = { ...asked, attempt: 2, questions: { i0: question } } as const
  const task = after(asked, answers('1.i0', '1.i1'), again)
  expect(Object.keys(task.questions)).toEqual(['2.i0'])
  expect(roundAnswers(after(asked, answers('1.i1')))).toEqual({ i1: yes })
})

test('keeps a task for as long as it was promised', () => {
  const early = { ...ended(1), expiresAt: 2000 } as TaskEvent
  expect(after(early).expiresAt).toBe(9000)
})

test('shows a task as its status demands', () => {
  const fields = {
    taskId: 'task_1',
    createdAt: '1970-01-01T00:00:01.000Z',
    lastUpdatedAt: '1970-01-01T00:00:01.001Z',
    pollIntervalMs: 1000,
  }
  const shown = (...events: readonly TaskEvent[]) => toDetailedTask(after(...events))
  expect(shown(ended(1))).toEqual({
    ...fields,
    status: 'completed',
    ttlMs: 29_000,
    result: { resultType: 'complete', content: [] },
  })
  expect(shown(failed)).toEqual({
    ...fields,
    status: 'failed',
    ttlMs: 8000,
    error: { code: -32_603, message: 'No' },
  })
  expect(shown(asked)).toEqual({
    ...fields,
    status: 'input_required',
    ttlMs: 19_000,
    inputRequests: { '1.i0': question, '1.i1': question },
  })
  expect(shown(asked, answers('1.i0'))).toMatchObject({ inputRequests: { '1.i1': question } })
  expect(toTaskFields(after(asked))).not.toHaveProperty('inputRequests')
})

test('says that a task waits for a process, until one executes it', () => {
  const waiting = 'Waits for a process that executes tasks'
  const counting: TaskEvent = { type: 'progress', attempt: 2, message: 'Counting' }
  const shown = (...events: readonly TaskEvent[]) => toTaskFields(after(...events))
  expect(shown(claimed, counting)).toMatchObject({ statusMessage: 'Counting' })
  expect(shown(claimed, counting, released(2))).toMatchObject({ statusMessage: waiting })
  expect(shown(cancelled)).not.toHaveProperty('statusMessage')
})

test('reads a task as it was stored, and nothing else', () => {
  for (const task of [after(), after(asked, answers('1.i0')), after(ended(1)), after(failed)]) {
    expect(parseTask(JSON.parse(JSON.stringify(task)))).toEqual(JSON.parse(JSON.stringify(task)))
  }
  expect(parseTask({ ...after(), status: 'done' })).toBeUndefined()
  expect(parseTask(undefined)).toBeUndefined()
})

import { expect, test } from 'vitest'

import { requestOf } from '../../test/scripted-source.ts'
import { newCall, nextCall, toEnd, type CallEvent } from '../runs/call-record.ts'
import type { RunOrder } from '../runs/order.ts'
import {
  areLast,
  isTask,
  newAnswers,
  runIdOfTask,
  taskIdOf,
  taskOf,
  toDetailedTask,
} from './task-view.ts'

const { canAsk: _, canVisit, knowsChoices, signal: __, progress: ___, ...rest } = requestOf('Hi')
const order: RunOrder = { ...rest, client: { canAsk: true, canVisit, knowsChoices } }
const runId = 'run_0123456789abcdef'
const taskId = 'task_0123456789abcdeffedcba98765432100'

const asked: Extract<CallEvent, { readonly type: 'asked' }> = {
  type: 'asked',
  attempt: 1,
  questions: ['name', 'size'].map((id) => ({ id, message: `${id}?` })),
  state: {},
  beginsAnew: false,
  files: undefined,
  progress: 0,
  told: undefined,
  expiresAt: () => 20_000,
}
const given: CallEvent = { type: 'given', responses: { i0: { action: 'decline' } } }

function after(...events: readonly CallEvent[]) {
  const call = recordAfter(...events)
  if (!isTask(call)) throw new Error('It is no task')
  return call
}

function recordAfter(...events: readonly CallEvent[]) {
  const names = { agentId: 'echo', skillId: 'echo', tool: 'echo', principal: 'ada', args: '' }
  const facts = { ...names, runId, secret: 'fedcba9876543210', isDurable: false }
  const kept: CallEvent = { type: 'kept', owner: 'ada', order, expiresAt: () => 9000 }
  const begun = newCall({ ...facts, expiresAt: 9000 }, 'a', 1000)
  return [kept, ...events].reduce((each, event) => nextCall(each, event, 1001), begun)
}

test('shows a task as its status demands', () => {
  const fields = {
    taskId,
    createdAt: '1970-01-01T00:00:01.000Z',
    lastUpdatedAt: '1970-01-01T00:00:01.001Z',
    pollIntervalMs: 1000,
  }
  const ended = { type: 'ended', attempt: 1, expiresAt: 30_000 } as const
  const shown = (...events: readonly CallEvent[]) => toDetailedTask(after(...events))
  expect(shown({ type: 'progress', attempt: 1, message: 'Counting' })).toEqual({
    ...fields,
    status: 'working',
    statusMessage: 'Counting',
    ttlMs: 8000,
  })
  expect(shown({ ...ended, end: toEnd({ content: [] }) })).toEqual({
    ...fields,
    status: 'completed',
    ttlMs: 29_000,
    result: { resultType: 'complete', content: [] },
  })
  const error = { code: -32_603, message: 'No' }
  expect(shown({ ...ended, end: { type: 'error', error } })).toMatchObject({
    status: 'failed',
    error,
  })
  expect(shown({ type: 'cancelled' })).toMatchObject({ status: 'cancelled' })
  const open = (call: ReturnType<typeof shown>) => Object.keys(call['inputRequests'] ?? {})
  expect(shown(asked)).toMatchObject({ status: 'input_required', ttlMs: 19_000 })
  expect(open(shown(asked))).toEqual(['1.i0', '1.i1'])
  expect(open(shown(asked, given))).toEqual(['1.i1'])
})

test('says that a task waits for a process, until one executes it', () => {
  const released: CallEvent = { type: 'released', attempt: 1 }
  const waiting = { statusMessage: 'Waits for a process that executes tasks' }
  expect(toDetailedTask(after(released))).toMatchObject(waiting)
  expect(toDetailedTask(after(released, { type: 'claimed', process: 'b' }))).not.toHaveProperty(
    'statusMessage',
  )
})

const answered = (reading: Extract<CallEvent, { type: 'answered' }>['reading']): CallEvent => ({
  type: 'answered',
  answered: { round: 1, hash: 'h', id: 'a' },
  reading,
  process: '',
  task: { owner: 'ada', began: 1 },
  order,
  isDurable: false,
  expiresAt: () => 10_000,
})

test.each<[string, ...events: readonly CallEvent[]]>([
  ['before an answer'],
  ['after a refusal', answered({ type: 'refusal', action: 'decline' })],
  ['after the time for answers', answered({ type: 'timeout' })],
  ['while another call continues it', answered({ type: 'answers', answers: {} })],
  ['after a cancellation', { type: 'cancelled' }],
])('shows the result that a client without forms was told, %s', (____, ...events) => {
  const told = { content: [{ type: 'text' as const, text: 'Who?' }] }
  const call = taskOf(recordAfter({ ...asked, told }, ...events), taskId)
  if (!call) throw new Error('It is no task')
  expect(toDetailedTask(call)).toMatchObject({
    status: 'completed',
    ttlMs: 19_000,
    result: told,
  })
  expect(newAnswers(call, { '1.i0': { action: 'decline' } })).toEqual({})
})

test('takes answers to open questions only, by their keys', () => {
  const yes = { action: 'accept', content: {} }
  const added = newAnswers(after(asked, given), { '1.i0': yes, '1.i1': yes, '2.i1': yes, x: yes })
  expect(added).toEqual({ i1: yes })
  expect(newAnswers(after(asked), { '1.i1': 'yes' })).toEqual({})
  expect(areLast(after(asked, given), added)).toBe(true)
  expect(areLast(after(asked), added)).toBe(false)
})

test('names a task by its run, its secret and the round in which it began', () => {
  expect(taskIdOf(after())).toBe(taskId)
  expect(runIdOfTask(taskId)).toBe(runId)
  for (const id of ['', 'task_1', runId, `${taskId}x`]) expect(runIdOfTask(id)).toBeUndefined()
})

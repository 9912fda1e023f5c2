import { expect, test } from 'vitest'

import { requestOf } from '../../test/scripted-source.ts'
import {
  DIED,
  mayExecute,
  newCall,
  nextCall,
  outlivesProcess,
  parseCall,
  toEnd,
  type CallEvent,
  type CallRecord,
  type NewCall,
} from './call-record.ts'
import type { RunOrder } from './order.ts'

const { canAsk, canVisit, knowsChoices, signal: _, progress: __, ...rest } = requestOf('Hi')
const order: RunOrder = { ...rest, client: { canAsk, canVisit, knowsChoices } }
const facts: NewCall = {
  runId: 'run_0123456789abcdef',
  secret: 'fedcba9876543210',
  agentId: 'echo',
  skillId: 'echo',
  tool: 'echo',
  principal: 'ada',
  args: 'hash',
  isDurable: false,
  expiresAt: 9000,
}

const asked = (attempt = 1): CallEvent => ({
  type: 'asked',
  attempt,
  questions: [{ id: 'name', message: 'Who?' }],
  state: { at: 1 },
  beginsAnew: false,
  files: undefined,
  progress: 2,
  told: undefined,
  expiresAt: () => 20_000,
})
type Reading = Extract<CallEvent, { type: 'answered' }>['reading']
const answered = (reading: Reading, process = 'b'): CallEvent => ({
  type: 'answered',
  answered: { round: 1, hash: 'h', id: 'a' },
  reading,
  process,
  task: undefined,
  order: undefined,
  isDurable: false,
  expiresAt: (status) => ({ asking: 21_000, running: 30_000, ended: 40_000 })[status],
})
const fits: Reading = { type: 'answers', answers: { name: { action: 'decline' } } }
const wrong: Reading = { type: 'errors', answers: {}, errors: new Map([['name', 'No text']]) }
const ended = (attempt: number): CallEvent => {
  return { type: 'ended', attempt, end: toEnd({ content: [] }), expiresAt: 40_000 }
}
const died: Extract<CallEvent, { type: 'ended' }> = {
  type: 'ended',
  attempt: 1,
  end: DIED,
  expiresAt: 40_000,
}
const kept: CallEvent = {
  type: 'kept',
  owner: 'ada',
  order,
  expiresAt: (status) => (status === 'asking' ? 20_500 : 9500),
}
const claimed: CallEvent = { type: 'claimed', process: 'b' }
const released = (attempt: number): CallEvent => ({ type: 'released', attempt })
const unstarted: CallEvent = { type: 'unstarted', attempt: 2, expiresAt: 22_000 }
const cancelled: CallEvent = { type: 'cancelled' }

/** The call after these events, the first of which comes after one millisecond. */
function after(...events: readonly CallEvent[]): CallRecord {
  return events.reduce(
    (call, event, index) => nextCall(call, event, 1001 + index),
    newCall(facts, 'a', 1000),
  )
}

test.each<[string, readonly CallEvent[], object]>([
  ['begins', [], { attempt: 1, state: { status: 'running', process: 'a', claims: 1 } }],
  [
    'reports a step',
    [{ type: 'progress', attempt: 1, message: 'On' }],
    { state: { message: 'On' } },
  ],
  ['is at a server', [{ type: 'remote', attempt: 1, remote: 7 }], { state: { remote: 7 } }],
  ['asks', [asked()], { round: 1, asks: 1, expiresAt: 20_000, state: { status: 'asking' } }],
  [
    'gets its answers',
    [asked(), answered(fits)],
    { attempt: 2, asked: { answers: { name: {} } }, state: { process: 'b', claims: 1 } },
  ],
  [
    'is queued with its answers',
    [asked(), answered(fits, '')],
    { attempt: 1, state: { claims: 0 } },
  ],
  ['gets an answer that does not fit', [asked(), answered(wrong)], { round: 1, asks: 2 }],
  ['asks again as a task', [asked(), kept, answered(wrong)], { round: 2, asks: 2 }],
  ['could not begin again', [asked(), answered(fits), unstarted], { state: { status: 'asking' } }],
  ['is executed again', [claimed, claimed], { attempt: 3, state: { claims: 3 } }],
  [
    'is left by its process',
    [claimed, claimed, released(3)],
    { state: { process: '', claims: 1 } },
  ],
  ['becomes a task', [kept], { task: { owner: 'ada', began: 0 }, expiresAt: 9500 }],
  ['was a task', [kept, { type: 'returned' }], { task: undefined }],
  ['ends', [ended(1)], { expiresAt: 40_000, state: { status: 'ended', end: { type: 'result' } } }],
  ['ends after its process seemed dead', [died, ended(1)], { state: { end: { type: 'result' } } }],
  ['is not answered', [asked(), kept, { type: 'unanswered' }], { state: { status: 'ended' } }],
  ['is cancelled while it asks', [asked(), cancelled], { state: { end: { type: 'cancelled' } } }],
  [
    'is refused an answer',
    [asked(), answered({ type: 'refusal', action: 'decline' })],
    { state: { end: { result: { _meta: { reason: 'decline' } } } } },
  ],
])('a call that %s', (___, events, expected) => {
  expect(after(...events)).toMatchObject({ ...expected, updatedAt: 1000 + events.length })
})

test.each<[string, readonly CallEvent[], CallEvent]>([
  ['the end of an earlier execution', [asked(), answered(fits)], ended(1)],
  ['the end of an execution that asked', [asked()], ended(1)],
  ['progress while it asks', [asked()], { type: 'progress', attempt: 1, message: 'late' }],
  ['an answer while it runs', [], answered(fits)],
  ['an earlier process that leaves it', [claimed, claimed], released(2)],
  ['a result after it was cancelled', [cancelled], ended(1)],
  ['a result of a task that has failed', [kept, died], ended(1)],
  ['a cancellation after its end', [ended(1)], cancelled],
  ['a question after its end', [ended(1)], asked()],
  ['a second owner', [kept], { ...kept, owner: 'bob' }],
])('nothing is changed by %s', (___, events, late) => {
  const call = after(...events)
  expect(nextCall(call, late, 5000)).toBe(call)
})

test.each([
  ['asks', (attempt: number) => [asked(attempt), answered(fits)]],
  [
    'gets no answer that fits',
    (attempt: number) => (attempt === 1 ? [asked()] : [answered(wrong)]),
  ],
])('ends a call that %s more than eight times', (___, round) => {
  let call = newCall(facts, 'a', 1000)
  let rounds = 0
  while (call.state.status !== 'ended' && rounds < 20) {
    rounds += 1
    for (const event of round(rounds)) call = nextCall(call, event, 2000)
  }
  expect(rounds).toBe(9)
  const reason = { _meta: { reason: 'too_many_questions' } }
  expect(call.state).toMatchObject({ end: { type: 'result', result: reason } })
})

test('keeps the state of the agent of a process that may be frozen, and of no other one', () => {
  const frozen = after(asked(), answered(fits), { ...died, attempt: 2 })
  expect(frozen).toMatchObject({ asked: { state: { at: 1 } }, state: { status: 'ended' } })
  expect(nextCall(frozen, ended(2), 5000)).not.toHaveProperty('asked')
})

const remote: CallEvent = { type: 'remote', attempt: 1, remote: { run: 'r' } }

test.each<[string, boolean, CallRecord]>([
  ['a plain call ends', false, after()],
  ['a plain call whose run is at a server ends', false, after(remote)],
  ['a task that began in its process ends', false, after(kept)],
  ['a task whose run is at a server is queued again', true, after(kept, remote)],
  [
    'a task that was queued before it began is queued again',
    true,
    { ...after(claimed), isDurable: true },
  ],
  ['a call that waits in the queue stays there', true, newCall(facts, '', 1000)],
  ['nothing happens to a call that asks', false, after(kept, asked())],
])('when its process dies, %s', (___, isContinued, call) => {
  expect(outlivesProcess(call)).toBe(isContinued)
})

test.each<[string, boolean, readonly [call: CallRecord, canContinue: boolean]]>([
  ['one that no process has begun', true, [after(), false]],
  ['one in which a process died', false, [after(claimed), false]],
  ['one in which a process died, if its agent continues', true, [after(claimed), true]],
  ['one whose run is at a server', true, [after(remote, claimed), false]],
  [
    'one that kills each process',
    false,
    [after(claimed, claimed, claimed, claimed, claimed), true],
  ],
  ['one that was cancelled', false, [after(cancelled), true]],
])(
  'executes a claimed call only if it may begin or go on: %s',
  (___, isAllowed, [call, canContinue]) => {
    expect(mayExecute(call, canContinue)).toBe(isAllowed)
  },
)

test('keeps a task for as long as it was promised', () => {
  const early = { ...ended(1), expiresAt: 2000 } as CallEvent
  expect(after(kept, early).expiresAt).toBe(9500)
})

test('reads a call as it was stored, and nothing else', () => {
  for (const call of [after(kept), after(asked(), kept), after(ended(1)), after(died)]) {
    expect(parseCall(JSON.parse(JSON.stringify(call)))).toEqual(JSON.parse(JSON.stringify(call)))
  }
  expect(parseCall({ ...after(), format: 0 })).toBeUndefined()
  expect(parseCall(undefined)).toBeUndefined()
})

import { inspect } from 'node:util'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { StartedCall } from '../tool-source.ts'
import { LiveCall, ToolCaller } from './live-call.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const never = new AbortController().signal
const question = { message: 'Who?', requestedSchema: { type: 'object' as const, properties: {} } }

function callOf(
  limits: { readonly workMs: number; readonly humanMs: number; readonly usedMs?: number },
  send: (signal: AbortSignal) => Promise<StartedCall> = (signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
    }),
): LiveCall {
  const caller = new ToolCaller({ server: { slug: 'shop' }, toolName: 'ask' }, {})
  return new LiveCall(caller, { usedMs: 0, maxMs: undefined, ...limits }, send)
}

test('stops the time limit of the call while a person is asked', async () => {
  const call = callOf({ workMs: 100, humanMs: 60_000 })
  await vi.advanceTimersByTimeAsync(60)
  const answer = call.ask(question, never)
  await expect(call.next(undefined)).resolves.toMatchObject({
    requests: { 'question-1': { method: 'elicitation/create', params: { message: 'Who?' } } },
  })
  await vi.advanceTimersByTimeAsync(50_000)
  expect(call.isOpen).toBe(true)
  call.answer({ 'question-1': { action: 'decline' } })
  await expect(answer).resolves.toEqual({ action: 'decline' })
  await vi.advanceTimersByTimeAsync(39)
  expect(call.isOpen).toBe(true)
  await vi.advanceTimersByTimeAsync(2)
  await expect(call.next(undefined)).rejects.toMatchObject({
    message: expect.stringContaining('MCP server "shop" gave no answer within 100 ms'),
    outcome: 'unknown',
  })
  expect(vi.getTimerCount()).toBe(0)
})

test('cancels a question that takes too long', async () => {
  const call = callOf({ workMs: 100, humanMs: 1000 })
  const answer = call.ask(question, never)
  await vi.advanceTimersByTimeAsync(1001)
  await expect(answer).resolves.toEqual({ action: 'cancel' })
})

test.each([Infinity, 2 ** 31])(
  'waits with limits of %d ms, which no timer can have',
  async (ms) => {
    const call = callOf({ workMs: ms, humanMs: ms })
    await vi.advanceTimersByTimeAsync(60_000)
    expect(call.isOpen).toBe(true)
    const answer = call.ask(question, never)
    await vi.advanceTimersByTimeAsync(60_000)
    call.answer({ 'question-1': { action: 'decline' } })
    await expect(answer).resolves.toEqual({ action: 'decline' })
    call.abort(new Error('over'))
  },
)

test('leaves no timer and no open question after the call ended', async () => {
  let end!: (call: StartedCall) => void
  const call = callOf(
    { workMs: 100, humanMs: 1000 },
    () =>
      new Promise((resolve) => {
        end = resolve
      }),
  )
  const answer = call.ask(question, never)
  const over = { result: { content: [] } }
  end(over)
  await expect(answer).resolves.toEqual({ action: 'cancel' })
  await expect(call.next(undefined)).resolves.toEqual(over)
  await expect(call.ask(question, never)).resolves.toEqual({ action: 'cancel' })
  expect(vi.getTimerCount()).toBe(0)
})

test('ends when the waiting run is aborted, but not when a run stopped waiting', async () => {
  const run = new AbortController()
  const call = callOf({ workMs: 100, humanMs: 1000 })
  void call.ask(question, never)
  await call.next(run.signal)
  run.abort(new Error('the run is over'))
  expect(call.isOpen).toBe(true)
  const second = new AbortController()
  call.answer({ 'question-1': { action: 'decline' } })
  const event = call.next(second.signal)
  second.abort(new Error('enough'))
  await expect(event).rejects.toThrow('enough')
})

test('a caller that a listener logs shows no config of its run', () => {
  const config = { configurable: { thread_id: 't', token: 'secret' } }
  const caller = new ToolCaller({ server: { slug: 'shop' }, toolName: 'ask' }, config)
  expect(caller.config).toBe(config)
  expect(JSON.stringify(caller) + inspect(caller)).not.toContain('secret')
})

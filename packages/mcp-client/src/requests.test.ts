import { LONGEST_MS } from '@x/internal'
import { getEventListeners } from 'node:events'
import { McpError, ResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { Answer, McpConnection } from '@x/mcp-transport'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { UnreadableResult } from './errors.ts'
import { readResult, resultOf, sendRequest } from './requests.ts'
import type { SendOptions } from './requests.ts'

type Call = ReturnType<McpConnection['createCall']>
type CallOptions = Parameters<McpConnection['createCall']>[1]

const request = { method: 'tools/call', params: { name: 'pay' } }

/** A connection whose answers the test gives. `isSent`: a request cannot be withdrawn any more. */
function startConnection({ isSent = false, cancellation = Promise.resolve() } = {}) {
  const seen: string[] = []
  const given: { options?: CallOptions } = {}
  let settle: ((outcome: Answer | TransportError) => void) | undefined
  const connection: Parameters<typeof sendRequest>[0] = {
    createCall(_request, options, onSettled) {
      given.options = options
      settle = onSettled
      return {} as Call
    },
    send: async () => void seen.push('sent'),
    withdraw: () => !isSent,
    async cancel(_call, params) {
      seen.push(`cancelled: ${String(params?.['reason'])}`)
      await cancellation
    },
  }
  return {
    seen,
    given,
    answer: (outcome: Answer | TransportError) => settle?.(outcome),
    send: (options: SendOptions = {}) =>
      sendRequest(connection, request, { ...options, schema: ResultSchema }),
  }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a request', () => {
  test('is not sent for a signal that has aborted', async () => {
    const { send, seen } = startConnection()
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(send({ signal })).rejects.toThrow('enough')
    expect(seen).toEqual([])
  })

  test('passes what belongs to the call', () => {
    const { send, given } = startConnection()
    const options = { inputs: { surface: true }, headers: { 'x-tenant': 'ada' } }
    const handlers = { onNotification: () => {} }
    void send({ ...options, handlers })
    expect(given.options).toMatchObject({ ...options, ...handlers })
    expect(given.options?.onProgress).toBeUndefined() // the server is not asked for it
  })

  test('passes valid progress only', () => {
    const { send, given } = startConnection()
    const reported: unknown[] = []
    void send({ onprogress: (progress) => reported.push(progress) })
    given.options?.onProgress?.({ progress: 1, message: 'half' })
    given.options?.onProgress?.({ progress: 'much' })
    expect(reported).toEqual([{ progress: 1, message: 'half' }])
  })

  test('leaves no timer and no listener', async () => {
    const { send, answer } = startConnection()
    const { signal } = new AbortController()
    const result = send({ signal, timeout: 1000 })
    expect([vi.getTimerCount(), getEventListeners(signal, 'abort').length]).toEqual([1, 1])
    answer({ result: { content: [] } })
    await expect(result).resolves.toEqual({ content: [] })
    expect([vi.getTimerCount(), getEventListeners(signal, 'abort').length]).toEqual([0, 0])
  })

  test.each([undefined, LONGEST_MS])('has no timer without a limit: %s', (timeout) => {
    const { send } = startConnection()
    void send({ timeout })
    expect(vi.getTimerCount()).toBe(0)
  })

  test.each([
    ['the signal', { signal: true, reason: 'Error: enough' }],
    ['the limit', { signal: false, reason: 'Request timed out' }],
  ])('is cancelled by %s with the reason, and may have been executed', async (_, how) => {
    const { send, seen } = startConnection({ isSent: true })
    const caller = new AbortController()
    const failing = send({ signal: caller.signal, timeout: 1000 }).catch((error: unknown) => error)
    if (how.signal) caller.abort(new Error('enough'))
    else vi.advanceTimersByTime(1000)
    expect(await failing).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
    expect(seen).toEqual(['sent', `cancelled: ${how.reason}`])
  })

  test('that was not sent is withdrawn, and not cancelled', async () => {
    const { send, seen } = startConnection()
    const caller = new AbortController()
    const failing = send({ signal: caller.signal }).catch((error: unknown) => error)
    caller.abort()
    expect(await failing).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    expect(seen).toEqual(['sent'])
  })

  test('reports a cancellation that failed', async () => {
    const failure = new Error('reset')
    const { send } = startConnection({ isSent: true, cancellation: Promise.reject(failure) })
    const caller = new AbortController()
    const reported = new Promise((onCancelFailed) => {
      send({ signal: caller.signal, onCancelFailed }).catch(() => {})
    })
    caller.abort()
    expect(await reported).toBe(failure)
  })
})

function thrownBy(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return error
  }
}

test('an error of the server has its code, message and data, and the stack of the caller', () => {
  const error = { code: -32602, message: 'Unknown tool', data: { name: 'pay' } }
  const thrown = thrownBy(function calledFromHere() {
    return resultOf({ error })
  })
  expect(thrown).toBeInstanceOf(McpError)
  expect(thrown).toMatchObject({ code: -32602, data: { name: 'pay' } })
  expect(String(thrown)).toContain('Unknown tool')
  const [, firstFrame] = String((thrown as Error).stack).split('\n')
  expect(firstFrame).toContain('calledFromHere')
})

test('an error of the transport is thrown unchanged', () => {
  const error = new TransportError('UNREACHABLE', 'No connection')
  expect(() => resultOf(error)).toThrow(error)
})

describe('a result that a schema refuses', () => {
  const schemaOf = (error: unknown) => ({
    parse(): never {
      throw error
    },
  })

  test('is in the error, with the issues as cause', () => {
    const cause = Object.assign(new Error('No text'), { issues: [] })
    const error = thrownBy(() => readResult(schemaOf(cause), { text: 1 }))
    expect(error).toBeInstanceOf(UnreadableResult)
    expect(error).toMatchObject({ result: { text: 1 }, cause })
  })

  test.each([new TypeError('A mistake in the schema'), 'no error', { issues: [] }])(
    'is not blamed for %s',
    (error) => expect(thrownBy(() => readResult(schemaOf(error), {}))).toBe(error),
  )
})

import { getEventListeners } from 'node:events'
import { EmptyResultSchema, ResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { Call, TransportError } from '@x/mcp-transport'
import { describe, expect, test } from 'vitest'
import { UnreadableResult } from './errors.ts'
import { sendRequest } from './requests.ts'
import type { ServerConnection } from './requests.ts'

const PING = { method: 'ping' } as const
const never = (): never => {
  throw new Error('not used in these tests')
}

/** A connection that sends nothing. The test settles its calls. */
function recording({ isSent = true } = {}) {
  const calls: Call[] = []
  const cancelled: unknown[] = []
  const connection: ServerConnection = {
    sessionId: 'one',
    isResumed: false,
    epoch: 1,
    era: 'legacy',
    serverCapabilities: undefined,
    protocolVersion: '2025-11-25',
    open: never,
    notify: never,
    terminate: never,
    close: never,
    createCall(request, options, onSettled) {
      const call = new Call({ id: calls.length, request, options, onSettled })
      calls.push(call)
      return call
    },
    send: async () => {},
    withdraw: () => !isSent,
    cancel: async ({ id }, params) => void cancelled.push({ id, ...params }),
  }
  return { connection, calls, cancelled }
}

describe('a request', () => {
  test('has the result of the server', async () => {
    const { connection, calls } = recording()
    const result = sendRequest(connection, PING, { schema: ResultSchema })
    calls[0]?.onSettled({ result: { answerTo: 1 } })
    await expect(result).resolves.toEqual({ answerTo: 1 })
  })

  test('rejects with the code, message and data of an error of the server', async () => {
    const { connection, calls } = recording()
    const result = sendRequest(connection, PING, { schema: ResultSchema })
    const error = { code: -32_050, message: 'no', data: { why: 'because' } }
    calls[0]?.onSettled({ error })
    await expect(result).rejects.toMatchObject({
      name: 'McpError',
      code: -32_050,
      data: error.data,
    })
  })

  test('rejects with the failure of the connection, unchanged', async () => {
    const { connection, calls } = recording()
    const result = sendRequest(connection, PING, { schema: ResultSchema })
    const failure = new TransportError('UNREACHABLE', 'away')
    calls[0]?.onSettled(failure)
    await expect(result).rejects.toBe(failure)
  })

  test('rejects a result that does not fit its schema, and keeps the result', async () => {
    const { connection, calls } = recording()
    const result = sendRequest(connection, PING, { schema: EmptyResultSchema })
    calls[0]?.onSettled({ result: { unexpected: true } })
    const error: unknown = await result.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UnreadableResult)
    expect(error).toMatchObject({ result: { unexpected: true }, cause: { issues: [{}] } })
  })

  test('is cancelled on the server with the reason, if it was sent', async () => {
    const { connection, cancelled } = recording()
    const controller = new AbortController()
    const { signal } = controller
    const result = sendRequest(connection, PING, { schema: EmptyResultSchema, signal })
    controller.abort('enough')
    await expect(result).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
    expect(cancelled).toEqual([{ id: 0, reason: 'enough' }])
  })

  test('is only withdrawn if it was not sent, so that it was certainly not executed', async () => {
    const { connection, cancelled } = recording({ isSent: false })
    const result = sendRequest(connection, PING, { schema: EmptyResultSchema, timeout: 1 })
    await expect(result).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    expect(cancelled).toEqual([])
  })

  test('is not sent for a signal that has aborted before', async () => {
    const { connection, calls } = recording()
    const signal = AbortSignal.abort(new Error('before'))
    const result = sendRequest(connection, PING, { schema: EmptyResultSchema, signal })
    await expect(result).rejects.toThrow('before')
    expect(calls).toEqual([])
  })

  test('is cancelled after its timeout', async () => {
    const { connection, cancelled } = recording()
    const result = sendRequest(connection, PING, { schema: EmptyResultSchema, timeout: 1 })
    await expect(result).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(cancelled).toEqual([{ id: 0, reason: 'Request timed out' }])
  })

  test('reports progress without what is not in the specification, and no other parameters', async () => {
    const { connection, calls } = recording()
    const progress: unknown[] = []
    const onprogress = (step: unknown): void => void progress.push(step)
    const result = sendRequest(connection, PING, { schema: ResultSchema, onprogress })
    calls[0]?.options.onProgress?.({ progressToken: 7, progress: 1, total: 2, message: 'half' })
    calls[0]?.options.onProgress?.({ progressToken: 7, progress: 'half' })
    calls[0]?.onSettled({ result: {} })
    await result
    expect(progress).toEqual([{ progress: 1, total: 2, message: 'half' }])
  })
})

test('1,000 requests that share a signal leave no listener on it', async () => {
  const { connection, calls, cancelled } = recording()
  const controller = new AbortController()
  const { signal } = controller
  const options = { schema: EmptyResultSchema, signal }
  const error = { code: -32_050, message: 'no' }
  for (let id = 0; id < 1000; id++) {
    const result = sendRequest(connection, PING, options)
    calls[id]?.onSettled(id % 2 === 0 ? { error } : { result: {} })
    await result.catch(() => {})
  }
  expect(getEventListeners(signal, 'abort')).toEqual([])
  const open = [sendRequest(connection, PING, options), sendRequest(connection, PING, options)]
  expect(getEventListeners(signal, 'abort')).toHaveLength(2)
  controller.abort('enough')
  for (const result of open) await expect(result).rejects.toMatchObject({ code: 'TIMEOUT' })
  expect(cancelled).toHaveLength(2)
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

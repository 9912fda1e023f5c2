import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHttpTransport, TransportError } from '@x/mcp-transport'
import { expect, test } from 'vitest'
import type { Epoch } from './epoch.ts'
import { Succession } from './succession.ts'

const timing = { wait: () => Promise.resolve(), random: () => 1 }
const loss = new TransportError('SESSION_LOST', 'Session not found', { certain: true })

function epochOf(
  number: number,
  { sessionId = `session-${number}`, isResumed = false } = {},
): Epoch {
  const client = new Client({ name: 'test', version: '1.0.0' })
  const transport = new StreamableHttpTransport('http://server.test/mcp')
  return { number, client, transport, sessionId, isResumed }
}

test('the first session replaces nothing', () => {
  const succession = new Succession()
  expect(succession.hasBegun).toBe(false)
  expect(succession.continueWith(epochOf(1))).toBeUndefined()
  expect(succession.hasBegun).toBe(true)
})

test('a later one says what it replaces, and why, without a whole session id', () => {
  const succession = new Succession()
  succession.continueWith(epochOf(1))
  succession.refused(loss)
  expect(succession.loss).toBe(loss)
  expect(succession.continueWith(epochOf(2))).toEqual({
    oldEpoch: 1,
    newEpoch: 2,
    oldSessionId: 'sess…(9)',
    newSessionId: 'sess…(9)',
    reason: 'The server no longer knew the session',
  })
  expect(succession.loss).toBeUndefined()
  succession.broken('its process ended with exit code 1')
  expect(succession.continueWith(epochOf(3))?.reason).toBe('its process ended with exit code 1')
  succession.left('Another process stored its session first')
  expect(succession.continueWith(epochOf(4))?.reason).toBe(
    'Another process stored its session first',
  )
})

test('waits before the second recovery in a row, and not after a success', () => {
  const succession = new Succession()
  succession.refused(loss)
  expect(succession.delayMs(timing)).toBe(0)
  succession.broken('the connection has ended')
  expect(succession.delayMs(timing)).toBe(100)
  succession.left('Another process stored its session first') // nothing was lost
  expect(succession.delayMs(timing)).toBe(100)
  succession.succeeded(epochOf(1))
  succession.refused(loss)
  expect(succession.delayMs(timing)).toBe(0)
})

test('only the session that goes on knows what it was told', () => {
  const succession = new Succession()
  const resumed = epochOf(1, { sessionId: 'one', isResumed: true })
  expect(succession.isContinuedBy(epochOf(1))).toBe(false)
  expect(succession.isContinuedBy(resumed)).toBe(true) // by the process before this one
  succession.continueWith(resumed)
  expect(succession.isContinuedBy(epochOf(2, { sessionId: 'two', isResumed: true }))).toBe(false)
  expect(succession.isContinuedBy(resumed)).toBe(true)
})

test('a loss in a session that replaced a lost one is certain only after a success in it', () => {
  const succession = new Succession()
  const refused = new TransportError('SESSION_LOST', 'Gone', { certain: true, status: 404 })
  const [first, second] = [epochOf(1), epochOf(2)]
  succession.continueWith(first)
  expect(succession.judged(first, refused)).toBe(refused)
  succession.refused(refused)
  succession.continueWith(second)
  expect(succession.judged(second, refused)).toMatchObject({
    code: 'SESSION_LOST',
    certain: false,
    status: 404,
    cause: refused,
  })
  // A request that was not sent was not executed.
  expect(succession.judged(second, loss)).toBe(loss)
  succession.succeeded(second)
  expect(succession.judged(second, refused)).toBe(refused)
})

import { expect, test } from 'vitest'

import { loggerObserver } from '../internal/logger.ts'
import { auditObserver, gatewayLog, toGatewayLogger } from './logger.ts'
import { allObservers, type ObservedCall } from '../internal/observer.ts'

function logged(level?: 'info' | 'silent' | 'debug'): {
  readonly lines: () => readonly Record<string, unknown>[]
  readonly text: () => string
  readonly log: ReturnType<typeof gatewayLog>
} {
  let text = ''
  const log = gatewayLog(level ?? 'info', { write: (line) => void (text += line) })
  const lines = (): Record<string, unknown>[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line): Record<string, unknown> => JSON.parse(line))
  return { lines, text: () => text, log }
}

const CALL: ObservedCall = {
  tool: 'support',
  isKnown: true,
  principal: 'ci',
  isAnonymous: false,
  era: 'legacy',
  address: undefined,
  trace: undefined,
}
const NAMES = { runId: 'run_1', tool: 'support', agentId: 'a', skillId: 's', principal: 'ci' }

test('writes who called, which tool and the outcome, but no text of the call', () => {
  const secret = 'S3CRETs3cret0123456789'
  const { lines, text, log } = logged()
  const call = {
    ...CALL,
    principal: 'https://login.example|ann',
    trace: { traceparent: secret },
    tool: `shop_order\n{"event":"audit","tool":"fake"}${'x'.repeat(300)}`,
  }
  const end = { outcome: 'ok', durationMs: 12.6, requestBytes: 40, resultBytes: 900 }
  auditObserver(log).callEnded?.(call, { ...end, runId: 'run_0123456789abcdef' })
  const [entry] = lines()
  expect(entry).toMatchObject({
    event: 'audit',
    action: 'call',
    principal: 'https://login.example|ann',
    run: 'run_0123456789abcdef',
    outcome: 'ok',
    ms: 13,
    bytesIn: 40,
    bytesOut: 900,
  })
  expect(entry?.['tool']).toHaveLength(128)
  expect(entry?.['tool']).not.toContain('\n')
  expect(text()).not.toContain(secret)
})

test('writes at most 60 refused credentials per minute, and one warning that there are more', () => {
  const { lines, log } = logged()
  let now = 0
  const observer = auditObserver(log, () => now)
  for (let n = 0; n < 1000; n++) {
    observer.requestRefused?.({ reason: 'bad_credential', status: 401, address: undefined })
    observer.requestRefused?.({ reason: 'no_credential', status: 401, address: undefined })
  }
  expect(lines().filter(({ event }) => event === 'audit')).toHaveLength(60)
  expect(lines().filter(({ level }) => level === 'warn')).toHaveLength(1)
  now = 60_000
  observer.requestRefused?.({ reason: 'sign_in', status: 400, address: undefined })
  expect(lines().at(-1)).toMatchObject({ event: 'audit', action: 'sign_in', outcome: 'sign_in' })
})

test('writes the error of a run with its causes, without credentials', () => {
  const { lines, text, log } = logged()
  const cause = new Error('POST https://a.example/x?key=abc failed: Bearer s3cr3t')
  const error = new TypeError('no answer', { cause })
  const observer = loggerObserver(toGatewayLogger(log))
  observer.runEvent({ type: 'failed', error, ...NAMES })
  observer.warned('token=s3cr3t was odd')
  log('info', { headers: { authorization: 'Bearer s3cr3t' }, token: 's3cr3t' }, 'x')
  expect(lines()[0]).toMatchObject({ level: 'error', runId: 'run_1', tool: 'support' })
  expect(lines()[0]?.['error']).toMatch(
    /^TypeError: no answer ← Error: POST https:\/\/a\.example\/x/,
  )
  expect(text()).not.toContain('s3cr3t')
  expect(text()).not.toContain('abc')
})

test('writes runs and sessions at level debug, and nothing at silent', () => {
  const [info, debug, silent] = [logged(), logged('debug'), logged('silent')]
  for (const { log } of [info, debug, silent]) {
    const observer = auditObserver(log)
    observer.runEvent?.({ type: 'started', ...NAMES })
    observer.sessionOpened?.()
    observer.sessionClosed?.({ reason: 'idle', openMs: 1 })
    loggerObserver(toGatewayLogger(log)).runEvent({ type: 'orphaned', ...NAMES })
  }
  expect(info.lines().map(({ msg }) => msg)).toEqual(['A run did not stop when it was told to'])
  expect(debug.lines()).toHaveLength(4)
  expect(silent.text()).toBe('')
})

test('continues if an observer throws', () => {
  const told: string[] = []
  const broken = {
    callStarted: (): never => {
      throw new Error('broken')
    },
    warned: (): never => {
      throw new Error('broken')
    },
  }
  const whole = {
    callStarted: () => ({ traceparent: 'x' }),
    warned: (message: string) => void told.push(message),
  }
  const all = allObservers([broken, whole])
  expect(all.callStarted(CALL)).toEqual({ traceparent: 'x' })
  all.warned('odd')
  all.sessionOpened()
  expect(told).toEqual(['odd'])
})

import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { afterEach, expect, test, vi } from 'vitest'
import { executionTypeFrom, sessionOptionsFor } from './execution-type.ts'

afterEach(() => vi.unstubAllEnvs())

test('the playground keeps sessions, and does not end them', () => {
  vi.stubEnv('DEBUGSTATE_URL', 'http://127.0.0.1:1')
  vi.stubEnv('DEBUGSTATE_AGENT_ID', 'agent')
  const { sessionInfoFactory, terminateOnClose } = sessionOptionsFor('playground')
  expect(sessionInfoFactory).toBeInstanceOf(SessionInfoDebugStateFactory)
  expect(terminateOnClose).toBe(false)
})

test.each(['runtime', 'eval'] as const)('%s ends sessions, and keeps none', (type) => {
  const { sessionInfoFactory, terminateOnClose } = sessionOptionsFor(type)
  expect(sessionInfoFactory).not.toBeInstanceOf(SessionInfoDebugStateFactory)
  expect(terminateOnClose).toBe(true)
})

test('what is not named is production', () => {
  expect(executionTypeFrom(undefined)).toBe('runtime')
  expect(executionTypeFrom('playground')).toBe('playground')
})

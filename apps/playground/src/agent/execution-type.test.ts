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

test.each(['playground', 'runtime', 'eval'])('reads %s', (type) => {
  expect(executionTypeFrom(type, '--execution-type')).toBe(type)
})

test.each(['production', 'Runtime', ''])('refuses "%s" and lists the valid values', (type) => {
  expect(() => executionTypeFrom(type, 'AGENT_EXECUTION_TYPE')).toThrow(
    `AGENT_EXECUTION_TYPE is ${JSON.stringify(type)}: it must be one of playground, runtime, eval`,
  )
})

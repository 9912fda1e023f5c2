import { TransportError } from '@x/mcp-transport'
import { expect, test } from 'vitest'
import * as surface from './index.ts'
import * as skills from './skills.ts'

test('exports exactly these names', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'FileSessionInfoFactory',
    'McpClient',
    'McpClientError',
    'SessionInfoFactory',
    'StaticServerDirectory',
    'clientOptionChecks',
    'currentRun',
    'httpDirectory',
    'isInputRequired',
    'mcpJsonDirectory',
    'runIdOf',
    'runInSessionScope',
    'withOverrides',
  ])
  expect(Object.keys(skills)).toEqual(['McpSkills'])
})

test('recognizes errors of another copy of this package, and not errors of the transport', () => {
  const error = new surface.McpClientError('CLOSED', 'closed', { server: 'shop' })
  const foreign = Object.defineProperty(new Error('x'), Symbol.for('mcp-client.McpClientError'), {
    value: true,
  })
  expect(error).toMatchObject({ name: 'McpClientError', tool: undefined, outcome: undefined })
  expect('cause' in error).toBe(false)
  expect(surface.McpClientError.is(error)).toBe(true)
  expect(surface.McpClientError.is(foreign)).toBe(true)
  expect(surface.McpClientError.is(new TransportError('CLOSED', 'closed'))).toBe(false)
  expect(surface.McpClientError.is(undefined)).toBe(false)
})

import { expect, test } from 'vitest'
import { resolveConfig } from './debug-state-config.ts'

const uipath = {
  UIPATH_URL: 'https://cloud.example/org/tenant/',
  UIPATH_PROJECT_ID: 'project',
  UIPATH_ACCESS_TOKEN: 'uipath-token',
}
const own = {
  DEBUGSTATE_URL: 'http://127.0.0.1:4711',
  DEBUGSTATE_AGENT_ID: 'agent',
  DEBUGSTATE_TOKEN: 'own-token',
}

test('prefers options to DEBUGSTATE_*, and those to UIPATH_*', () => {
  expect(resolveConfig({}, uipath)).toEqual({
    origin: 'https://cloud.example',
    path: '/org/tenant/agenthub_/design/debugstate',
    agentId: 'project',
    token: 'uipath-token',
  })
  expect(resolveConfig({}, { ...uipath, ...own })).toEqual({
    origin: 'http://127.0.0.1:4711',
    path: '/agenthub_/design/debugstate',
    agentId: 'agent',
    token: 'own-token',
  })
  const options = { baseUrl: 'https://a.example', agentId: 'b', token: 'c' }
  expect(resolveConfig(options, { ...uipath, ...own })).toEqual({
    origin: 'https://a.example',
    path: '/agenthub_/design/debugstate',
    agentId: 'b',
    token: 'c',
  })
})

test('reads variables of a platform by preset only, if the process does not run on it', () => {
  const { UIPATH_URL: _, ...withoutUrl } = uipath
  const options = { baseUrl: 'https://cloud.example' }
  expect(resolveConfig(options, withoutUrl)).toEqual({ missing: expect.stringMatching(/no agent/) })
  expect(resolveConfig({ ...options, preset: 'agenthub' }, withoutUrl)).toMatchObject({
    agentId: 'project',
    token: undefined, // issued for an unknown host
  })
  expect(resolveConfig({ preset: 'none' }, uipath)).toEqual({
    missing: expect.stringMatching(/no service address/),
  })
})

test('never sends a token that was issued for another host', () => {
  const { DEBUGSTATE_TOKEN: _, ...withoutToken } = own
  expect(resolveConfig({}, { ...uipath, ...withoutToken })).toMatchObject({
    origin: 'http://127.0.0.1:4711',
    token: undefined,
  })
  expect(resolveConfig({ baseUrl: 'https://cloud.example' }, uipath)).toMatchObject({
    token: 'uipath-token',
  })
})

test.each([
  [{}, {}, /no service address/],
  [{}, { DEBUGSTATE_URL: 'http://127.0.0.1' }, /no agent id/],
  [{ agentId: 'a' }, { DEBUGSTATE_URL: 'nonsense' }, /DEBUGSTATE_URL must be/],
  [{ agentId: 'a' }, { UIPATH_URL: 'ftp://a.example' }, /UIPATH_URL must be/],
])('names the missing part for %j and %j', (options, env, missing) => {
  expect(resolveConfig(options, env)).toEqual({ missing: expect.stringMatching(missing) })
})

test.each([
  'nonsense',
  'ftp://a.example',
  'https://user:secret@a.example',
  'https://a.example?x=1',
])('throws a TypeError for a `baseUrl` of %s', (baseUrl) => {
  expect(() => resolveConfig({ baseUrl, agentId: 'a' }, {})).toThrow(TypeError)
})

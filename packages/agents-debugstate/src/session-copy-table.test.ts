import type { SessionInfo } from '@x/mcp-transport'
import { describe, expect, test } from 'vitest'
import { plainService, startScriptedService } from '../test/scripted-service.ts'
import { SessionInfoDebugStateFactory } from './session-info-debug-state-factory.ts'

const KEY = 'mcpsession::shop'
const READ = [`GET ${KEY}`, `GET ${KEY}:record`]

/** Steps that bring a copy into each state, with `stored` in the service. Their requests are not counted. */
const ways: Readonly<Record<string, (info: SessionInfo) => Promise<unknown>>> = {
  'not loaded': async () => {},
  loaded: (info) => info.getSessionId(),
  cleared: async (info) => {
    await info.setSessionId(undefined)
    await info.flush()
  },
}

interface Row {
  readonly state: string
  readonly act: (info: SessionInfo) => Promise<unknown>
  readonly does: string
  readonly asks: readonly string[]
  readonly after: string | undefined
  readonly stored: string | undefined
}

const get = (info: SessionInfo): Promise<unknown> => info.getSessionId()
const set =
  (id: string | undefined) =>
  (info: SessionInfo): Promise<unknown> =>
    info.setSessionId(id)

const rows: readonly Row[] = [
  { state: 'not loaded', does: 'get', act: get, asks: READ, after: 'old', stored: 'old' },
  {
    state: 'not loaded',
    does: 'get, 20 times at once',
    act: (info) => Promise.all(Array.from({ length: 20 }, () => info.getSessionId())),
    asks: READ,
    after: 'old',
    stored: 'old',
  },
  {
    state: 'not loaded',
    does: 'set(new)',
    act: set('new'),
    asks: [`PUT ${KEY}`],
    after: 'new',
    stored: 'new',
  },
  {
    state: 'not loaded',
    does: 'set(new) while a get is on its way',
    act: (info) => Promise.all([info.getSessionId(), info.setSessionId('new')]),
    asks: [...READ, `PUT ${KEY}`],
    after: 'new',
    stored: 'new',
  },
  {
    state: 'not loaded',
    does: 'set(undefined)',
    act: set(undefined),
    asks: [`DELETE ${KEY}`, `GET ${KEY}:record`], // no session to delete
    after: undefined,
    stored: undefined,
  },
  { state: 'loaded', does: 'get', act: get, asks: [], after: 'old', stored: 'old' },
  { state: 'loaded', does: 'set(old)', act: set('old'), asks: [], after: 'old', stored: 'old' },
  {
    state: 'loaded',
    does: 'set(new)',
    act: set('new'),
    asks: [`PUT ${KEY}`],
    after: 'new',
    stored: 'new',
  },
  {
    state: 'loaded',
    does: 'set(undefined)',
    act: set(undefined),
    asks: [`DELETE ${KEY}`],
    after: undefined,
    stored: undefined,
  },
  { state: 'cleared', does: 'get', act: get, asks: [], after: undefined, stored: undefined },
  {
    state: 'cleared',
    does: 'set(new)',
    act: set('new'),
    asks: [`PUT ${KEY}`],
    after: 'new',
    stored: 'new',
  },
  {
    state: 'cleared',
    does: 'set(undefined)',
    act: set(undefined),
    asks: [],
    after: undefined,
    stored: undefined,
  },
]

describe.each(rows)('$state: $does', ({ state, act, asks, after, stored }) => {
  test(`sends ${asks.length} requests, and then is ${after}`, async () => {
    const values = new Map([[KEY, 'old']])
    await using service = await startScriptedService(plainService(values))
    await using factory = new SessionInfoDebugStateFactory({
      baseUrl: service.baseUrl,
      agentId: 'agent',
      env: {},
    })
    const info = factory.createSession({ slug: 'shop' })
    await ways[state]?.(info)
    const before = service.lines.length
    await act(info)
    await info.flush()
    expect(service.lines.slice(before).toSorted()).toEqual(asks.toSorted())
    expect(await info.getSessionId()).toBe(after)
    expect(values.get(KEY)).toBe(stored)
    expect(service.lines).toHaveLength(before + asks.length)
  })
})

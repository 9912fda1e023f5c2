import { expect, test } from 'vitest'
import { clientPlan, planLines, serverPlan } from './plan.ts'

const old = { revision: '2025-11-25', name: 'initialize' } as const
const modern = { revision: '2026-07-28', name: 'initialize' } as const

test('runs SDK v2 with its own negotiation on modern servers', () => {
  const { runs } = clientPlan(['v1', 'v2'], [old, modern])
  expect(runs.map(({ subject, revision }) => `${subject} ${revision}`)).toEqual([
    'v1 2025-11-25',
    'v1 2026-07-28',
    'v2 2025-11-25',
    'v2 2026-07-28',
    'v2-modern 2026-07-28',
  ])
  expect(clientPlan(['v2'], [old]).runs).toMatchObject([{ subject: 'v2' }])
})

test('leaves out a scenario that a client cannot pass, with the reason', () => {
  const scenario = { revision: '2026-07-28', name: 'sep-2322-client-request-state' } as const
  const { runs, inapplicable } = clientPlan(['v1', 'v2'], [scenario])
  expect(runs.map(({ subject }) => subject)).toEqual(['v1', 'v2'])
  expect(inapplicable).toMatchObject([{ subject: 'v2-modern', reason: expect.any(String) }])
})

const ping = { revision: '2025-11-25', name: 'ping' } as const
const caching = { revision: '2026-07-28', name: 'caching' } as const

test('gives each scenario its target', () => {
  const plan = serverPlan([ping, caching], {
    agents: ['ping'],
    sampling: [],
    fixture: ['caching'],
  })
  expect(plan).toEqual([
    { ...ping, subject: 'agents' },
    { ...caching, subject: 'fixture' },
  ])
  expect(planLines(plan)).toEqual([
    'agents     2025-11-25  1: ping',
    'fixture    2026-07-28  1: caching',
  ])
})

test('rejects a scenario without a target, with two targets, or with an unknown name', () => {
  expect(() =>
    serverPlan([ping, caching], { agents: ['ping'], sampling: [], fixture: [] }),
  ).toThrow('no target')
  const twice = { agents: ['ping'], sampling: ['ping'], fixture: [] }
  expect(() => serverPlan([ping], twice)).toThrow('two targets')
  const more = { agents: ['ping', 'pong'], sampling: [], fixture: [] }
  expect(() => serverPlan([ping], more)).toThrow('No revision requires the server scenario "pong"')
})

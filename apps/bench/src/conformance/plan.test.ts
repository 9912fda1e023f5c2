import { expect, test } from 'vitest'
import { clientPlan, INAPPLICABLE, planLines, serverPlan } from './plan.ts'
import type { ClientName } from './plan.ts'
import type { Scenario } from './suite.ts'

const old = { revision: '2025-11-25', name: 'initialize' } as const
const modern = { revision: '2026-07-28', name: 'initialize' } as const

test('runs SDK v2 with its own negotiation on modern servers', () => {
  const required = (names: readonly ClientName[], scenarios: readonly Scenario[]) =>
    clientPlan(names, scenarios)
      .filter(({ isRequired }) => isRequired)
      .map(({ subject, revision }) => `${subject} ${revision}`)
  expect(required(['v1', 'v2'], [old, modern])).toEqual([
    'v1 2025-11-25',
    'v1 2026-07-28',
    'v2 2025-11-25',
    'v2 2026-07-28',
    'v2-modern 2026-07-28',
  ])
  expect(required(['v2'], [old])).toEqual(['v2 2025-11-25'])
  expect(required(['mcp-client'], [old, modern])).toEqual([
    'mcp-client 2025-11-25',
    'mcp-client 2026-07-28',
  ])
})

test('runs the scenarios that no revision requires in two revisions with each client', () => {
  const runs = clientPlan(['v1', 'v2', 'mcp-client'], [])
  expect(runs).toHaveLength(50)
  expect(runs.filter(({ isRequired }) => isRequired)).toEqual([])
  const subjects = new Set(runs.map(({ subject }) => subject))
  expect(subjects).toEqual(new Set(['v1', 'v2', 'mcp-client']))
})

test('gives the reason for a scenario that a client cannot pass', () => {
  const scenario = { revision: '2026-07-28', name: 'sep-2322-client-request-state' } as const
  const left = clientPlan(['v1', 'v2'], [scenario]).filter(
    ({ subject, name }) => `${subject} ${name}` in INAPPLICABLE,
  )
  expect(left).toMatchObject([{ subject: 'v2-modern' }])
})

const ping = { revision: '2025-11-25', name: 'ping' } as const
const caching = { revision: '2026-07-28', name: 'caching' } as const

test('gives each scenario its target', () => {
  const plan = serverPlan([ping, caching], {
    agents: ['ping'],
    sampling: [],
    fixture: ['caching'],
  })
  expect(plan.slice(0, 2)).toEqual([
    { ...ping, subject: 'agents', isRequired: true },
    { ...caching, subject: 'fixture', isRequired: true },
  ])
  expect(plan.slice(2).every(({ isRequired }) => !isRequired)).toBe(true)
  expect(planLines(plan.slice(0, 2))).toEqual([
    'agents      2025-11-25  required  1: ping',
    'fixture     2026-07-28  required  1: caching',
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

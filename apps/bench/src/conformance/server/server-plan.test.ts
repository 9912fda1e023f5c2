import { expect, test } from 'vitest'
import { planLines, serverPlanFor } from './server-plan.ts'

const old = { revision: '2025-11-25', name: 'ping' } as const
const modern = { revision: '2026-07-28', name: 'caching' } as const

test('every scenario has its target', () => {
  const plan = serverPlanFor([old, modern], {
    agents: ['ping'],
    sampling: [],
    fixture: ['caching'],
  })
  expect(plan).toEqual([
    { ...old, subject: 'agents' },
    { ...modern, subject: 'fixture' },
  ])
  expect(planLines(plan)).toEqual([
    'agents     2025-11-25  1: ping',
    'fixture    2026-07-28  1: caching',
  ])
})

test('none is left out, run twice, or made up', () => {
  expect(() =>
    serverPlanFor([old, modern], { agents: ['ping'], sampling: [], fixture: [] }),
  ).toThrow('no target')
  const twice = { agents: ['ping'], sampling: ['ping'], fixture: [] }
  expect(() => serverPlanFor([old], twice)).toThrow('two targets')
  const more = { agents: ['ping', 'pong'], sampling: [], fixture: [] }
  expect(() => serverPlanFor([old], more)).toThrow('No revision requires the scenario "pong"')
})

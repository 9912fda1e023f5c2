import { expect, test } from 'vitest'
import { planFor } from './clients.ts'

const old = { revision: '2025-11-25', name: 'initialize' } as const
const modern = { revision: '2026-07-28', name: 'initialize' } as const

test('the second version is also run as it negotiates by itself, on modern servers', () => {
  const { runs } = planFor(['v1', 'v2'], [old, modern])
  expect(runs.map(({ subject, revision }) => `${subject} ${revision}`)).toEqual([
    'v1 2025-11-25',
    'v1 2026-07-28',
    'v2 2025-11-25',
    'v2 2026-07-28',
    'v2-modern 2026-07-28',
  ])
  expect(planFor(['v2'], [old]).runs).toMatchObject([{ subject: 'v2' }])
})

test('what cannot be run is told with its reason, and not run', () => {
  const scenario = { revision: '2026-07-28', name: 'sep-2322-client-request-state' } as const
  const { runs, inapplicable } = planFor(['v1', 'v2'], [scenario])
  expect(runs.map(({ subject }) => subject)).toEqual(['v1', 'v2'])
  expect(inapplicable).toMatchObject([{ subject: 'v2-modern', reason: expect.any(String) }])
})

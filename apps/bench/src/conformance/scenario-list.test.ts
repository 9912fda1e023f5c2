import { expect, test } from 'vitest'
import { namesFor, requiredNames } from './scenario-list.ts'

test('each side has a part of its own in a requirement set', () => {
  const text = `Required for 2025-11-25 (4 scenarios, frozen):

Server scenarios (test against a server):
  - ping

Client scenarios (test against a client):
  - initialize
  - auth/basic-cimd

Run and reported, but never scored:
  extension (1):
    - auth/dpop [client]
`
  expect(requiredNames(text, 'client')).toEqual(['initialize', 'auth/basic-cimd'])
  expect(requiredNames(text, 'server')).toEqual(['ping'])
})

test('a scenario belongs to each revision that is named beside it', () => {
  const text = `Client scenarios (test against a client):
  - initialize [2025-06-18,2025-11-25]
  - sse-retry [2025-11-25]
  - auth/dpop [extension]
`
  expect(namesFor(text, '2025-06-18')).toEqual(['initialize'])
  expect(namesFor(text, '2025-11-25')).toEqual(['initialize', 'sse-retry'])
})

test('a list that cannot be read has no names', () => {
  expect(requiredNames('No requirement set for 2020-01-01.', 'server')).toEqual([])
})

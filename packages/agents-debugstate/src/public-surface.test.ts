import { expect, test } from 'vitest'
import * as client from './index.ts'
import * as server from './server/index.ts'

test('exports exactly these names', () => {
  expect(Object.keys(client).toSorted()).toEqual([
    'DebugStateError',
    'SessionInfoDebugState',
    'SessionInfoDebugStateFactory',
  ])
  expect(Object.keys(server).toSorted()).toEqual([
    'DebugStateServerError',
    'DebugStateStoreError',
    'MemoryDebugStateStore',
    'RedisDebugStateStore',
    'SqliteDebugStateStore',
    'createDebugStateServer',
  ])
})

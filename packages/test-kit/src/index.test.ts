import { expect, test } from 'vitest'
import * as surface from './index.ts'

test('exports exactly this', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'deferred',
    'freePort',
    'handlerDispatcher',
    'lossForms',
    'seededRandom',
    'startEverythingServer',
    'startModernServer',
    'startRecordingProxy',
    'startStatefulServer',
    'startTestServer',
  ])
})

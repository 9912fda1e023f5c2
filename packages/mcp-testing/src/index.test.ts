import { expect, test } from 'vitest'
import * as surface from './index.ts'

test('exports exactly this', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'CallLedger',
    'deferred',
    'discoverResult',
    'freePort',
    'handlerDispatcher',
    'lossForms',
    'probeForms',
    'seededFaults',
    'seededRandom',
    'startLegacyServer',
    'startModernServer',
    'startRecordingProxy',
    'startReplaceableServer',
    'startScriptedServer',
    'startTestServer',
    'toolFailures',
  ])
})

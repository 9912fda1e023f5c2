import { expect, test } from 'vitest'
import * as surface from './index.ts'

test('exports exactly this', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'conformanceServer',
    'deferred',
    'discoverResult',
    'everythingStdioCommand',
    'freePort',
    'handlerDispatcher',
    'headerAnnotationForms',
    'lossForms',
    'probeForms',
    'seededRandom',
    'sourceNode',
    'startEverythingServer',
    'startLegacyServer',
    'startModernServer',
    'startRecordingProxy',
    'startRedisServer',
    'startReplaceableServer',
    'startScriptedServer',
    'startTestServer',
    'toolFailures',
  ])
})

import { expect, test } from 'vitest'
import * as surface from './index.ts'

test('exports exactly these names', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'AuthError',
    'bearer',
    'clientCredentials',
    'createAuthProvider',
    'deviceOAuth',
    'fileTokenStore',
    'loopbackOAuth',
    'memoryTokenStore',
  ])
})

import { expect, test } from 'vitest'
import { childEnvironment } from './child-environment.ts'

test('a child inherits what a program cannot do without, and no token of this process', () => {
  const inherited = { PATH: '/bin', HOME: '/home/me', OPENAI_API_KEY: 'x', SHELL: '() { evil; }' }
  expect(childEnvironment({ platform: 'linux', inherited, added: [] })).toEqual({
    PATH: '/bin',
    HOME: '/home/me',
  })
})

test.each(['linux', 'win32'] as const)('passes on the certificate authorities (%s)', (platform) => {
  const inherited = { NODE_EXTRA_CA_CERTS: '/corp.pem', SSL_CERT_FILE: '/ca.pem', CA_TOKEN: 'x' }
  const { CA_TOKEN: _, ...paths } = inherited
  expect(childEnvironment({ platform, inherited, added: [] })).toEqual(paths)
})

test('what is added later wins; undefined adds nothing; the given objects stay as they are', () => {
  const inherited = Object.freeze({ PATH: '/bin' })
  const env = Object.freeze({ PATH: '/own', A: '1' })
  const secrets = Object.freeze({ A: '2', B: undefined })
  expect(childEnvironment({ platform: 'linux', inherited, added: [env, secrets] })).toEqual({
    PATH: '/own',
    A: '2',
  })
})

test('on Windows names have no case, and there is one of each', () => {
  const inherited = { Path: 'C:\\bin', SystemRoot: 'C:\\Windows', Secret: 'x' }
  const added = [{ path: 'D:\\own' }]
  expect(childEnvironment({ platform: 'win32', inherited, added })).toEqual({
    path: 'D:\\own',
    SYSTEMROOT: 'C:\\Windows',
  })
})

import { expect, test } from 'vitest'

import { createGateway } from './index.ts'

test.each([
  [{ agent: {} }, 'createGateway(): there is no option "agent". Did you mean "agents"?'],
  [{ source: [] }, 'Did you mean "sources"?'],
  [{ sources: {} }, '"sources" must be a list, each item an object, not an object'],
  [{ auth: 'secret' }, '"auth" must be an authenticator, such as bearerAuth(token), not a string'],
  [{ eras: { legacy: 'session' } }, `Did you mean 'sessions'?`],
  [{ eras: { modren: true } }, 'Did you mean "eras.modern"?'],
  [{ http: 8000 }, '"http" must be an object, not 8000'],
  [{ onEvent: 'log' }, '"onEvent" must be a function'],
  [undefined, 'the options must be'],
])('createGateway() refuses %o', (options, message) => {
  expect(() => createGateway(options as never)).toThrow(
    expect.objectContaining({
      name: 'GatewayError',
      code: 'CONFIG',
      message: expect.stringContaining(message),
    }),
  )
})

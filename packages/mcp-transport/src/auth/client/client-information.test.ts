import { expect, test } from 'vitest'
import { clientInformationFrom } from './client-information.ts'

test('keeps what is needed again, and nothing else', () => {
  const information = {
    client_id: 'c',
    client_secret: 's',
    client_secret_expires_at: 0,
    redirect_uris: ['http://127.0.0.1:7/callback'],
    issuer: 'https://as.test',
  }
  expect(clientInformationFrom({ ...information, client_name: 'app', redirect: 1 })).toEqual(
    information,
  )
})

test.each([undefined, null, {}, { client_id: '' }, { client_id: 1 }])(
  '%j is no client information',
  (value) => {
    expect(clientInformationFrom(value)).toBeUndefined()
  },
)

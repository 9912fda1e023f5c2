import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { expect, test } from 'vitest'
import { certificateAuthorities } from './certificate-authorities.ts'

test('without SSL_CERT_FILE it is Node’s own list', () => {
  expect(certificateAuthorities({})).toBeUndefined()
  expect(certificateAuthorities({ SSL_CERT_FILE: '' })).toBeUndefined()
})

test('SSL_CERT_FILE takes the place of the built-in ones', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ca-'))
  try {
    const path = join(folder, 'ca.pem')
    await writeFile(path, rootCertificates[0] ?? '')
    expect(certificateAuthorities({ SSL_CERT_FILE: path })).toContain(rootCertificates[0])
    expect(certificateAuthorities({ SSL_CERT_FILE: path })).not.toContain(rootCertificates[1])
    const [one, other] = [1, 2].map(() => certificateAuthorities({ SSL_CERT_FILE: path }))
    expect(one).toBe(other) // read once, however many dispatchers there are
    await writeFile(path, rootCertificates[1] ?? '')
    await utimes(path, 1, 1)
    expect(certificateAuthorities({ SSL_CERT_FILE: path })).toContain(rootCertificates[1])
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a file that cannot be read is an error that names it', () => {
  const path = join(tmpdir(), 'there-is-no-such-file.pem')
  expect(() => certificateAuthorities({ SSL_CERT_FILE: path })).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(path) }),
  )
})

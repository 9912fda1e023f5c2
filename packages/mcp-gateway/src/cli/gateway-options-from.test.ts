import { expect, test } from 'vitest'

import { gatewayOptionsFrom } from './gateway-options-from.ts'
import { readConfig } from './read-config.ts'

test('what a file says of files reaches the gateway', async () => {
  const content = `
inline: { imageMaxBytes: 0, clientProfiles: [{ match: ^small, totalMaxBytes: 10 }] }
artifacts: { ttlMs: 5000, uriScheme: file-of, quota: { versionsPerName: 3 }, upload: { linkTool: true } }
tools: { extras: { scope: false } }`
  await using configured = await gatewayOptionsFrom(readConfig({ content }).config)
  expect(configured.options).toMatchObject({
    inline: { imageMaxBytes: 0, clientProfiles: [{ match: '^small', totalMaxBytes: 10 }] },
    artifacts: {
      ttlMs: 5000,
      uriScheme: 'file-of',
      quota: { versionsPerName: 3, countPerPrincipal: 1000 },
      upload: { enabled: true, linkTool: true },
    },
    tools: { extras: { scope: false, files: undefined } },
  })
})

test('what it does not say is left to the gateway, which knows who calls and where', async () => {
  await using configured = await gatewayOptionsFrom(readConfig({ content: '' }).config)
  const { artifacts, tools } = configured.options
  expect(artifacts?.upload?.linkTool).toBeUndefined()
  expect(tools?.extras).toMatchObject({ files: undefined, scope: undefined, resume: true })
})

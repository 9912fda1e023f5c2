import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { configFolder, type ConfigFolder } from '../../test/config-folder.ts'
import { readConfig } from './config-file.ts'
import { importSection, PACKAGES } from './file-sections.ts'

async function installed(folder: ConfigFolder, name: string, code: string): Promise<void> {
  const at = join(folder.path, 'node_modules', name)
  await mkdir(at, { recursive: true })
  const manifest = { name, type: 'module', exports: './index.js' }
  await writeFile(join(at, 'package.json'), JSON.stringify(manifest))
  await writeFile(join(at, 'index.js'), code)
}

const use = 'store.url'

test('says what to install if the package is missing', async () => {
  await expect(importSection('@x/no-such-package', { folder: '.', use })).rejects.toMatchObject({
    name: 'GatewayError',
    code: 'CONFIG',
    message: expect.stringContaining(
      'store.url needs the package @x/no-such-package, which is not installed: npm install @x/no-such-package',
    ),
  })
})

test('finds a package that is installed beside the configuration file only', async () => {
  await using folder = await configFolder()
  await installed(folder, 'good-section', 'export const fileSection = { schema: {}, create() {} }')
  const section = await importSection('good-section', { folder: folder.path, use })
  expect(section).toMatchObject({ schema: {} })
})

test('names the error of a package that is installed but cannot be loaded', async () => {
  await using folder = await configFolder()
  await installed(folder, 'broken-section', 'throw new Error("No such driver")')
  await expect(importSection('broken-section', { folder: folder.path, use })).rejects.toThrow(
    'store.url needs the package broken-section, which cannot be loaded: No such driver',
  )
})

test('refuses a package without a section', async () => {
  await using folder = await configFolder()
  await installed(folder, 'old-section', 'export const other = 1')
  await expect(importSection('old-section', { folder: folder.path, use })).rejects.toThrow(
    'store.url needs another version of the package old-section: npm install old-section@latest',
  )
})

test('names the line of a missing package, and the other mistakes of the file', async () => {
  const { store } = PACKAGES
  const { redis } = store
  Reflect.set(store, 'redis', '@x/no-such-package')
  try {
    const content = 'http:\n  prot: 1\nstore:\n  url: redis://localhost\n'
    await expect(readConfig(content, { file: 'g.yaml' })).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining(
        [
          'g.yaml:4: store.url needs the package @x/no-such-package, which is not installed: npm install @x/no-such-package',
          'g.yaml:2: there is no setting "http.prot". Did you mean "http.port"?',
        ].join('\n'),
      ),
    })
  } finally {
    Reflect.set(store, 'redis', redis)
  }
})

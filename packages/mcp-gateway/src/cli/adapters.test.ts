import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { configFolder } from '../../test/config-folder.ts'
import { importAdapter } from './adapters.ts'

test('says what to install when the package is missing', async () => {
  const path = 'store.type'
  await expect(importAdapter('@x/no-such-adapter', { folder: '.', path })).rejects.toMatchObject({
    name: 'GatewayError',
    code: 'CONFIG',
    path,
    message:
      'The setting "store.type" needs the package @x/no-such-adapter. Install it: npm install @x/no-such-adapter',
  })
})

test('finds a package that is installed beside the configuration file only', async () => {
  await using folder = await configFolder()
  const file = await folder.file('g.yaml', '{}\n')
  const at = join(file, '..')
  const installed = join(at, 'node_modules', 'adapter-of-a-test')
  await mkdir(installed, { recursive: true })
  const manifest = { name: 'adapter-of-a-test', type: 'module', exports: './index.js' }
  await writeFile(join(installed, 'package.json'), JSON.stringify(manifest))
  await writeFile(join(installed, 'index.js'), 'export const greeting = "hello"\n')
  const context = { folder: at, path: 'store.type' }
  expect(await importAdapter('adapter-of-a-test', context)).toMatchObject({ greeting: 'hello' })
})

test('passes on the error of a package that is installed but does not work', async () => {
  await using folder = await configFolder()
  const at = join(await folder.file('g.yaml', '{}\n'), '..')
  const installed = join(at, 'node_modules', 'broken-adapter')
  await mkdir(installed, { recursive: true })
  await writeFile(join(installed, 'package.json'), '{ "type": "module", "exports": "./index.js" }')
  await writeFile(join(installed, 'index.js'), 'throw new Error("It does not work")\n')
  const imported = importAdapter('broken-adapter', { folder: at, path: 'store.type' })
  await expect(imported).rejects.toThrow('It does not work')
})

import { expect, test } from 'vitest'
import { addedVariables } from './child-environment.ts'

const env = {
  COMPUTERNAME: 'PC',
  ComSpec: 'C:\\Windows\\system32\\cmd.exe',
  GITHUB_TOKEN: 'secret',
  NODE_EXTRA_CA_CERTS: 'C:\\ca.pem',
  Path: 'C:\\nodejs',
  PATHEXT: '.EXE;.CMD',
  ProgramData: 'C:\\ProgramData',
  'ProgramFiles(x86)': 'C:\\Program Files (x86)',
  SystemRoot: 'C:\\Windows',
}

test('finds the variables of Windows whatever the case of their names, as in a worker thread', () => {
  expect(addedVariables({}, { platform: 'win32', env })).toEqual({
    COMPUTERNAME: 'PC',
    COMSPEC: 'C:\\Windows\\system32\\cmd.exe',
    NODE_EXTRA_CA_CERTS: 'C:\\ca.pem',
    PATH: 'C:\\nodejs',
    PATHEXT: '.EXE;.CMD',
    PROGRAMDATA: 'C:\\ProgramData',
    'PROGRAMFILES(X86)': 'C:\\Program Files (x86)',
    SYSTEMROOT: 'C:\\Windows',
  })
})

test('a variable of the configuration replaces the one of this process, in any case on Windows', () => {
  const added = addedVariables({ path: 'D:\\tools' }, { platform: 'win32', env })
  expect(added).toMatchObject({ PATH: 'D:\\tools' })
  expect(added).not.toHaveProperty('path')
})

test('keeps the case of names on other systems, and inherits only certificate authorities', () => {
  expect(addedVariables({ path: '/tools' }, { platform: 'darwin', env })).toEqual({
    NODE_EXTRA_CA_CERTS: 'C:\\ca.pem',
    path: '/tools',
  })
})

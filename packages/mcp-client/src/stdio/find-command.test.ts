import { describe, expect, test } from 'vitest'
import { findCommand } from './find-command.ts'

describe('on Windows', () => {
  const files = [
    'C:\\nodejs\\node.exe',
    'C:\\nodejs\\npx',
    'C:\\nodejs\\npx.cmd',
    'D:\\srv\\run.bat',
    'D:\\srv\\tool.v2.exe',
  ]
  const find = (command: string, path = 'relative;"C:\\nodejs";D:\\srv'): string | undefined =>
    findCommand(command, {
      platform: 'win32',
      path,
      cwd: 'D:\\srv',
      isExecutable: (file) => files.includes(file),
    })

  test.each([
    ['node', 'C:\\nodejs\\node.exe'],
    ['node.exe', 'C:\\nodejs\\node.exe'],
    ['npx', 'C:\\nodejs\\npx.cmd'], // not the script for other shells beside it
    ['tool.v2', 'D:\\srv\\tool.v2.exe'],
    ['.\\run', 'D:\\srv\\run.bat'],
    ['C:/nodejs/node', 'C:\\nodejs\\node.exe'],
    ['missing', undefined],
  ])('%s is %s', (command, file) => {
    expect(find(command)).toBe(file)
  })

  test('PATHEXT says which files are programs, and which come first', () => {
    const search = {
      platform: 'win32',
      path: 'C:\\x',
      cwd: 'C:\\',
      isExecutable: () => true,
    } as const
    expect(findCommand('a', { ...search, pathExt: '.CMD;.EXE' })).toBe('C:\\x\\a.cmd')
  })
})

describe('elsewhere', () => {
  const find = (command: string): string | undefined =>
    findCommand(command, {
      platform: 'linux',
      path: ':relative:/a:/b',
      cwd: '/srv',
      isExecutable: (file) => ['/b/node', '/srv/bin/run', 'relative/x'].includes(file),
    })

  test.each([
    ['node', '/b/node'],
    ['bin/run', '/srv/bin/run'],
    ['/b/node', '/b/node'],
    ['x', undefined],
  ])('%s is %s', (command, file) => {
    expect(find(command)).toBe(file)
  })
})

import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from '@jest/globals';
import type { Family } from '../../rotation-model/schedule.ts';

/** A rule, and what breaks it. */
interface BrokenRule {
  readonly rule: string;
  readonly file: 'choice' | 'reader' | 'selector' | 'table' | 'response';
  /** Texts of the file, and what takes their place. */
  readonly edits: readonly (readonly [text: string, replacement: string])[];
  readonly family?: Family;
  /** In the violation that is found. */
  readonly found: RegExp;
}

const brokenRules: readonly BrokenRule[] = [
  {
    rule: 'the current key stays until the gateway accepts another one',
    file: 'choice',
    edits: [['this.#current = current ?? keys[0];', 'this.#current = keys[0];']],
    found: /though the gateway never accepted it/,
  },
  {
    rule: 'a late response never moves the current key back',
    file: 'choice',
    edits: [['if (sentAt < this.#acceptedSentAt) return false;', '']],
    found: /which was accepted later/,
  },
  {
    rule: 'a page of a load balancer proves nothing',
    file: 'response',
    edits: [
      ["if (type === '') return 'silent';", "if (type === '') return isSuccess ? 'accepted' : 'silent';"],
    ],
    family: 'odd',
    found: /though the gateway never accepted it|which was accepted later/,
  },
  {
    rule: 'an error in a 2xx does not prove the next key of a payment',
    file: 'selector',
    edits: [["(testimony === 'error' && (isAgain || sameKey(key, before)))", "testimony === 'error'"]],
    family: 'hostile',
    found: /though the gateway never accepted it|which was accepted later/,
  },
  {
    rule: 'contrast never holds between two payments',
    file: 'selector',
    edits: [
      [
        'this.#hear(keys, request, sent);\n      // Not before',
        'this.#hear(keys, request, sent, next !== undefined);\n      // Not before',
      ],
    ],
    family: 'hostile',
    found: /though the gateway never accepted it|which was accepted later/,
  },
  {
    rule: 'a 401 is a rejection',
    file: 'response',
    edits: [['status === 401 || ', '']],
    found: /403/,
  },
  {
    rule: 'a rejected query is signed with each other key at once',
    file: 'selector',
    edits: [['untried(mayTry ? all : current, tried)', 'untried(current, tried)']],
    found: /query 403/,
  },
  {
    rule: 'each of the queries that are rejected at the same time is signed again',
    file: 'selector',
    edits: [['const mayTry = choice.mayTry(', 'const mayTry = choice.takeStep(']],
    family: 'ordinary',
    found: /query 403: earlier, although the ring had the key/,
  },
  {
    rule: 'a rejected query causes a look',
    file: 'selector',
    edits: [
      [
        'const look = reader.look(login, request.caller);\n    if (look !== undefined)\n      await',
        'const look = undefined;\n    if (look !== undefined)\n      await',
      ],
    ],
    found: /query 403/,
  },
  {
    rule: 'a rejected query waits at most a second',
    file: 'selector',
    edits: [['const sourceWait = 1_000;', 'const sourceWait = 10_000;']],
    family: 'odd',
    found: /waited for/,
  },
  {
    rule: 'a payment is never sent again',
    file: 'selector',
    edits: [
      [
        'const next = choice.beginTrial',
        'if (choice.keys.length > 1) return await this.query(request, send);\n    const next = choice.beginTrial',
      ],
    ],
    found: /was sent twice/,
  },
  {
    rule: 'after a rejection, the next payment is signed with the next key',
    file: 'choice',
    edits: [['if (doubt?.isRejected !== true || ', 'if (true || ']],
    found: /payment 403: with a rejected key/,
  },
  {
    rule: 'only rejections of this caller and endpoint are a reason for that',
    file: 'selector',
    edits: [
      [
        'choice.recordRejected(key, request)',
        "choice.recordRejected(key, { ...request, caller: '', endpoint: '' })",
      ],
      ['choice.beginTrial(request,', "choice.beginTrial({ ...request, caller: '', endpoint: '' },"],
    ],
    family: 'hostile',
    found: /of which none was rejected/,
  },
  {
    rule: 'a late rejection of the key before is no reason either',
    file: 'choice',
    edits: [['if (!place.readOnly && sameKey(key, this.#current))', 'if (!place.readOnly)']],
    family: 'ordinary',
    found: /of which none was rejected/,
  },
  {
    rule: 'other keys are tried in steps',
    file: 'choice',
    edits: [['now >= this.#stepsOf(place).dueAt', 'now >= 0']],
    family: 'odd',
    found: /a key is tried .* ms after another one/,
  },
  {
    rule: 'one payment of a caller at a time tries another key',
    file: 'choice',
    edits: [[' || now < (this.#trials.get(place.caller) ?? now)', '']],
    found: /try another key at a time/,
  },
  {
    rule: 'a new ring resets the steps',
    file: 'choice',
    edits: [['    this.resetSteps();\n', '']],
    family: 'ordinary',
    found: /403/,
  },
  {
    rule: 'one look a second at a login',
    file: 'reader',
    edits: [['const looks = { interval: 1_000,', 'const looks = { interval: 100,']],
    found: /a look at shop/,
  },
  {
    rule: 'thirty looks a second, half of them for one caller',
    file: 'reader',
    edits: [['environment: 30, caller: 15', 'environment: 300, caller: 150']],
    family: 'odd',
    found: /looks in 10 s/,
  },
  {
    rule: 'a deleted key is not used any more',
    file: 'reader',
    edits: [['this.#table.due(round.logins)', '[]']],
    found: /deleted in Vault/,
  },
  {
    rule: 'a denial leaves the cached keys',
    file: 'table',
    edits: [
      [
        '    this.#storeFailure(ref, this.peek(ref), failure);\n    if (failure',
        "    this.#remove(name, 'expired');\n    this.#storeFailure(ref, undefined, failure);\n    if (failure",
      ],
    ],
    family: 'odd',
    found: /was not sent: key-source-unavailable|a look at shop/,
  },
  {
    rule: 'a mount that vanished leaves the cached keys',
    file: 'table',
    edits: [["if (reading === 'not-found' && login !== undefined", 'if (false && login !== undefined']],
    family: 'odd',
    found: /was not sent: key-missing|a look at shop/,
  },
  {
    rule: 'no read is started without a handler',
    file: 'reader',
    edits: [['    read.catch(() => {', '    void (() => {']],
    family: 'odd',
    found: /unhandled rejection/,
  },
];

const root = path.join(import.meta.dirname, '../../..');

/** Runs the model in a copy of the project with the rule broken, until a promise is. @returns what it prints */
function runBroken({ file, edits, family }: BrokenRule, schedules: number): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'broken-rule-'));
  try {
    for (const part of ['src', 'test/rotation-model', 'test/support', 'package.json'])
      cpSync(path.join(root, part), path.join(folder, part), { recursive: true });
    symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
    edit(path.join(folder, 'src', file === 'response' ? 'gateway' : 'keys', `${file}.ts`), edits);
    const args = [
      '--stop',
      '--schedules',
      String(schedules),
      ...(family === undefined ? [] : ['--family', family]),
    ];
    const main = path.join(folder, 'test/rotation-model/main.ts');
    return spawnSync(process.execPath, [main, ...args], { encoding: 'utf8', maxBuffer: 1e9 }).stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @throws TypeError if a text is not in the file: the rule is written in another way now */
function edit(file: string, edits: BrokenRule['edits']): void {
  let source = readFileSync(file, 'utf8');
  for (const [text, replacement] of edits) {
    if (!source.includes(text)) throw new TypeError(`${file} has no ${text}`);
    source = source.replace(text, () => replacement);
  }
  writeFileSync(file, source);
}

it.each(brokenRules)(
  'the model finds it when this is broken: $rule',
  (broken) => {
    const violations = runBroken(broken, 300)
      .split('\n')
      .filter((line) => /^\d+\.\d{3} s: /.test(line));
    expect(violations.join('\n')).toMatch(broken.found);
  },
  240_000,
);

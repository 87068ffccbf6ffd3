'use strict';
(function () {
  const at = (id) => document.getElementById(id);
  const root = document.documentElement;
  // The number of rounds in charts, and in the table.
  const DRAWN = 120, LISTED = 20;
  const state = { role: null, federations: null, rounds: [], of: null, closed: -1, stream: null, sure: null, told: null, tokens: [], acts: [] };

  // -- Elements, without markup in strings: nothing from a server can become markup.
  function make(name, fields, ...inside) {
    const svg = ['svg', 'rect', 'line', 'path', 'text', 'title', 'circle', 'g'].includes(name);
    const made = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
    for (const [key, value] of Object.entries(fields || {})) {
      if (key === 'click') made.addEventListener('click', value);
      else if (value === true) made.setAttribute(key, '');
      else if (value !== false && value != null) made.setAttribute(key, value);
    }
    for (const each of inside.flat(9)) if (each != null && each !== false) made.append(each);
    return made;
  }
  const number = (value) => Number(value).toLocaleString('en-GB');
  function bytes(value) {
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let unit = 0;
    while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit++; }
    return (unit && value < 99.5 ? value.toPrecision(value < 9.95 ? 2 : 3) : Math.round(value)) + ' ' + units[unit];
  }
  function span(seconds) {
    // Rounds of a few devices take less than a second: "0 s" would say that nothing happened.
    if (seconds > 0 && seconds < 0.95) return Math.max(1, Math.round(seconds * 1000)) + ' ms';
    if (seconds > 0 && seconds < 9.5) return seconds.toFixed(1) + ' s';
    if (seconds < 90) return Math.max(0, Math.round(seconds)) + ' s';
    if (seconds < 5400) return Math.round(seconds / 60) + ' min';
    if (seconds < 172800) return Math.round(seconds / 3600) + ' h';
    return Math.round(seconds / 86400) + ' days';
  }
  const small = (value) => (value > 0 && value < 0.001 ? value.toExponential() : String(value));
  const several = (count, one, more) => number(count) + ' ' + (count === 1 ? one : more);

  // -- Theme.
  const chosen = (() => { try { return localStorage.getItem('sottovoce-theme'); } catch (e) { return null; } })();
  if (chosen === 'light' || chosen === 'dark') root.dataset.theme = chosen;
  const dark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme:dark)').matches);
  const label = () => { at('theme').textContent = dark() ? 'Light' : 'Dark'; };
  at('theme').addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    try { localStorage.setItem('sottovoce-theme', root.dataset.theme); } catch (e) { /* not stored */ }
    label();
  });
  label();

  // -- Requests.
  const token = () => sessionStorage.getItem('sottovoce-token');
  class Refused extends Error {
    constructor(status, words) { super(words); this.status = status; }
  }
  async function ask(path, method, body) {
    let answer;
    try {
      const fields = { method: method || 'GET', headers: { Authorization: 'Bearer ' + token() }, cache: 'no-store' };
      if (body) fields.body = JSON.stringify(body);
      answer = await fetch(path, fields);
    } catch (e) {
      throw new Refused(0, 'The server does not answer.');
    }
    if (answer.ok) return answer;
    let words = 'The server responds with status ' + answer.status + '.';
    try { const told = await answer.json(); words = told.title + (told.detail && told.detail !== told.title ? ': ' + told.detail : '') + '.'; } catch (e) { /* no details */ }
    throw new Refused(answer.status, words);
  }
  const say = (words) => { at('trouble').textContent = words || ''; at('trouble').hidden = !words; };
  function live(on, words) {
    at('live').hidden = false;
    at('live').className = on ? 'live' : 'live off';
    at('live').textContent = words;
  }

  // -- Signing in and out.
  function leave(words) {
    if (state.stream) state.stream.abort();
    sessionStorage.removeItem('sottovoce-token');
    Object.assign(state, { role: null, federations: null, rounds: [], of: null, closed: -1, stream: null, sure: null, told: null, tokens: [], acts: [] });
    ['all', 'one', 'leave', 'live'].forEach((id) => { at(id).hidden = true; });
    at('enter').hidden = false;
    at('token').value = '';
    at('token').focus();
    say(words);
  }
  async function enter() {
    try {
      state.role = (await (await ask('/v1/operator/me')).json()).role;
    } catch (e) {
      if (e.status === 401) leave('This token is unknown or no longer valid.');
      else { say(e.message + ' Retrying.'); setTimeout(enter, 3000); }
      return;
    }
    say('');
    at('enter').hidden = true;
    at('leave').hidden = false;
    fetchActs();
    listen();
  }
  at('enter').addEventListener('submit', (event) => {
    event.preventDefault();
    sessionStorage.setItem('sottovoce-token', at('token').value.trim());
    enter();
  });
  at('leave').addEventListener('click', () => leave(''));

  // -- The stream of events.
  async function listen() {
    const stream = new AbortController();
    state.stream = stream;
    try {
      const answer = await fetch('/v1/operator/events', { headers: { Authorization: 'Bearer ' + token() }, signal: stream.signal, cache: 'no-store' });
      if (answer.status === 401) return leave('This token is no longer valid.');
      if (!answer.ok || !answer.body) throw new Error('no stream');
      live(true, 'live');
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        rest += value;
        const events = rest.split('\n\n');
        rest = events.pop();
        for (const event of events) heard(event);
      }
    } catch (e) {
      if (stream.signal.aborted) return undefined;
    }
    live(false, 'not connected; retrying');
    setTimeout(() => { if (state.stream === stream) enter(); }, 2000);
    return undefined;
  }
  function heard(event) {
    const data = event.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5)).join('');
    if (!data) return;
    state.federations = JSON.parse(data).federations;
    live(true, 'live');
    show();
  }

  // -- One federation or all of them.
  const wanted = () => decodeURIComponent(location.hash.slice(1));
  addEventListener('hashchange', () => { state.sure = null; state.told = null; show(); fetchActs(); scrollTo(0, 0); });
  function show() {
    if (!state.federations) return;
    const name = wanted();
    const one = state.federations.find((each) => each.name === name);
    at('all').hidden = !!name;
    at('one').hidden = !name;
    document.title = (name || 'Sottovoce') + ' · federations';
    if (!name) return showAll();
    if (!one) {
      at('drawn').replaceChildren();
      return at('now').replaceChildren(back(), make('p', { class: 'none' }, 'There is no federation of this name.'));
    }
    if (state.of !== name) Object.assign(state, { of: name, rounds: [], closed: -1, loaded: false, tokens: [] });
    if (state.closed !== one.round) fetchRounds(one);
    return showOne(one);
  }
  // Tokens and acts are for those who may change something.
  const operates = () => state.role === 'operator' || state.role === 'admin';
  const at_federation = (one, rest) => '/v1/operator/federations/' + encodeURIComponent(one.name) + rest;
  async function fetchTokens(one) {
    if (!operates() || one.state === 'archived') return;
    try {
      const { tokens } = await (await ask(at_federation(one, '/enrolment-tokens'))).json();
      if (state.of === one.name) { state.tokens = tokens; showOne(state.federations.find((each) => each.name === one.name) || one); }
    } catch (e) { if (e.status !== 401) say(e.message); }
  }
  async function fetchActs() {
    if (!operates()) return;
    try {
      state.acts = (await (await ask('/v1/operator/acts?limit=' + LISTED)).json()).acts;
      if (!wanted()) show();
    } catch (e) { if (e.status !== 401) say(e.message); }
  }
  async function fetchRounds(one) {
    if (state.closed === -1) fetchTokens(one);
    state.closed = one.round;
    try {
      const path = '/v1/operator/federations/' + encodeURIComponent(one.name) + '/rounds?limit=' + DRAWN;
      const { rounds } = await (await ask(path)).json();
      if (state.of !== one.name) return;
      state.rounds = rounds.reverse();
      state.loaded = true;
      showOne(state.federations.find((each) => each.name === one.name) || one);
    } catch (e) {
      state.closed = -1;
      if (e.status !== 401) say(e.message);
    }
  }

  const badge = (one) => make('span', { class: 'state ' + one.state }, one.state);
  const endless = (one) => !!(one.plan && one.plan.endless);
  const track = (one) => make('div', { class: 'track' },
    endless(one) ? 'Round ' + number(one.round) + ', without end' : 'Round ' + number(Math.min(one.round, one.rounds)) + ' of ' + number(one.rounds),
    !endless(one) && make('progress', { max: one.rounds, value: Math.min(one.round, one.rounds), 'aria-label': 'rounds done' }));

  function showAll() {
    const list = state.federations;
    if (!list.length) {
      at('all').replaceChildren(make('h1', {}, 'No federations yet'), make('div', { class: 'empty' },
        make('p', {}, 'A federation is a shared model, a catalog, and the devices that train it together. This command creates one with the synthetic town:'),
        make('pre', {}, make('code', {}, 'sottovoce federation create town --model fcf --catalog-of synth:town:users=300'))));
      return;
    }
    const running = list.filter((each) => each.state === 'running').length;
    const line = (one) => make('li', {}, make('a', { href: '#' + encodeURIComponent(one.name) },
      make('span', {}, make('b', {}, one.name), make('small', {}, one.model + ' · ' + several(one.items, 'item', 'items'))),
      make('span', {}, badge(one)), track(one),
      make('span', { class: 'right' }, several(one.devices, 'device', 'devices'), make('small', {}, number(one.present) + ' active now'))));
    at('all').replaceChildren(
      make('h1', {}, several(list.length, 'federation', 'federations') + ', ' + (running === list.length && running > 1 ? 'all' : number(running)) + ' running'),
      make('ul', { class: 'list' }, list.map(line)), acts() || '');
    hint();
  }
  const minute = (time) => new Date(time).toISOString().slice(0, 16).replace('T', ' ') + ' UTC';
  function listing(title, heads, rows) {
    return make('div', { class: 'past' }, make('h2', {}, title), wide(make('table', {},
      make('thead', {}, make('tr', {}, heads.map((head) => make('th', { scope: 'col', class: 'words' }, head)))),
      make('tbody', {}, rows))));
  }
  const words = (text) => make('td', { class: 'words' }, text);
  // What operators did, the latest first.
  function acts() {
    if (!state.acts.length) return null;
    const who = (act) => act.label + (act.token == null ? '' : ' (token ' + act.token + ', ' + act.role + ')');
    return listing('Operators’ acts', ['When', 'Who', 'What', 'Federation', 'Detail'], state.acts.map((act) => make('tr', {},
      words(minute(act.at)), words(who(act)), words(act.act), words(act.federation || ''), words(act.detail))));
  }
  // Enrolment tokens: how many devices each still admits, and until when.
  function tokens(one) {
    if (!state.tokens.length) return null;
    return listing('Enrolment tokens', ['Token', 'Label', 'Uses left', 'Expires', ''], state.tokens.map((each) => make('tr', {},
      words(number(each.id)), words(each.label || '–'), words(each.uses == null ? 'any number' : number(each.uses)), words(each.expires ? minute(each.expires) : 'never'),
      make('td', {}, make('button', { type: 'button', class: 'quiet', click: () => revoke(one, each.id) }, 'Revoke')))));
  }
  async function revoke(one, id) {
    try { await ask(at_federation(one, '/enrolment-tokens/' + id), 'DELETE'); say(''); } catch (e) { say(e.message); }
    fetchTokens(one);
  }

  const back = () => make('a', { class: 'back', href: '#' }, '← All federations');
  function figure(name, value, ...details) {
    return make('div', {}, make('dt', {}, name), make('dd', {}, value), details.map((each) => each && make('dd', { class: 'detail' }, each)));
  }

  function showOne(one) {
    // Keep the focus of a button across updates.
    const focused = document.activeElement && document.activeElement.dataset.does;
    const sum = (key) => state.rounds.reduce((all, round) => all + round[key], 0);
    const now = one.under_way;
    const under = now ? figure('Open round ' + number(now.round), number(now.stored) + ' of ' + number(now.wanted),
      'updates; ' + several(now.asked, 'device', 'devices') + ' selected, ' + number(now.declined) + ' declined' + (now.refused ? ', ' + several(now.refused, 'upload', 'uploads') + ' rejected' : ''),
      now.deadline ? 'closes in ' + span((now.deadline - Date.now()) / 1000) + ' at the latest' : null)
      : figure('Open round', '–', waiting(one));
    if (!state.loaded) return at('now').replaceChildren(back(), make('p', { class: 'none' }, 'Reading rounds…'));
    const over = Math.min(one.round, one.rounds);
    const part = state.rounds.length < one.round ? ' in the last ' + several(state.rounds.length, 'round', 'rounds') : '';
    const asked = sum('asked');
    const lost = state.rounds.filter((round) => round.version === null && !round.counted).length;
    at('now').replaceChildren(back(),
      make('div', { class: 'title' }, make('div', {}, make('h1', {}, one.name), badge(one)), buttons(one)),
      make('p', { class: 'about' }, one.model + ', ' + several(one.items, 'item', 'items') + ', version ' + number(one.version) + ' of the shared model' + (one.record_uploads ? '; every upload is retained for an audit' : '') + (one.failure ? '. It failed: ' + one.failure : '')),
      make('dl', { class: 'figures' },
        figure('Rounds done', endless(one) ? number(one.round) + ', without end' : number(over) + ' of ' + number(one.rounds), lost ? number(lost) + ' abandoned' + part : null),
        under,
        figure('Devices', number(one.devices), number(one.present) + ' active in the last five minutes', one.revoked ? number(one.revoked) + ' revoked' : null),
        figure('Participation', asked ? Math.round(100 * sum('counted') / asked) + ' %' : '–', asked ? number(sum('counted')) + ' aggregated of ' + number(asked) + ' selected' + part : 'no round has closed yet', sum('refused') ? several(sum('refused'), 'upload', 'uploads') + ' rejected' : null),
        one.privacy ? figure('Epsilon', one.privacy.epsilon === null ? '∞' : one.privacy.epsilon.toFixed(2), (one.privacy.budget ? 'of ' + one.privacy.budget + ', ' : '') + (one.privacy.epsilon_server === null ? 'unbounded' : one.privacy.epsilon_server.toFixed(2)) + ' against the server, at delta ' + small(one.privacy.delta) + ', of ' + one.privacy.hides, one.privacy.placement + ' ' + one.privacy.shape + ' noise, clip ' + (one.privacy.clip === null ? '–' : one.privacy.clip.toPrecision(3))) : '',
        figure('Sent to devices', bytes(sum('bytes_down')), 'models' + part),
        figure('Sent by devices', bytes(sum('bytes_up')), 'updates' + part)),
      one.quarantined.length ? make('p', { class: 'about' }, 'Not asked any more: ' + one.quarantined.map((each) => 'device ' + each.device + ' (' + each.reason + ')').join('; ')) : '',
      warning(one) || '', tokens(one) || '', audiences(one.audiences) || '');
    draw();
    hint();
    if (focused) { const again = at('now').querySelector('[data-does=' + focused + ']'); if (again) again.focus(); }
    return undefined;
  }
  // Sizes are noisy counts, or that there are fewer than k and nothing else.
  function audiences(all) {
    if (!all) return null;
    const size = (told) => (!told ? '–' : told.size == null ? 'below ' + number(told.below) : number(told.size));
    const day = (time) => new Date(time).toISOString().slice(0, 10);
    const about = (each) => each.categories.join(each.match === 'all' ? ' and ' : ' or ') + ', score ' + each.threshold + ' or more';
    const row = (each) => make('tr', {}, make('td', { class: 'words' }, each.name), make('td', { class: 'words' }, about(each)), make('td', {}, size(each.size)),
      make('td', {}, each.state), make('td', {}, each.measurement ? each.measurement.state : '–'), make('td', {}, number(each.advertiser)), make('td', {}, day(each.expires)));
    const heads = ['Audience', 'People who would like', 'Size, with noise', 'State', 'Last measurement', 'Advertiser', 'Until'];
    const spent = several(all.measurements, 'measurement has', 'measurements have') + ' spent epsilon ' + all.epsilon.toFixed(3) + ' of ' + all.budget + ' at delta ' + small(all.delta) +
      '; sizes are shown from ' + number(all.k) + ' people on. ' + several(all.devices, 'device takes', 'devices take') + ' part.';
    return make('div', { class: 'past' }, make('h2', {}, 'Audiences'), make('p', { class: 'about' }, spent),
      all.audiences.length ? wide(make('table', {},
        make('thead', {}, make('tr', {}, heads.map((head, at) => make('th', { scope: 'col', class: at < 2 ? 'words' : null }, head)))),
        make('tbody', {}, all.audiences.slice().reverse().map(row)))) : make('p', { class: 'none' }, 'No advertiser has described an audience yet.'));
  }
  // Charts are redrawn only when their data change, so that tooltips stay.
  function draw() {
    const of = [state.of, state.closed, state.rounds.length, document.querySelector('main').clientWidth].join(' ');
    if (at('drawn').dataset.of === of) return;
    at('drawn').dataset.of = of;
    at('drawn').replaceChildren(charts(), past() || '');
  }
  function waiting(one) {
    if (one.waits_for) return 'waits for ' + one.waits_for;
    return { running: 'the next one opens as soon as enough devices are active', paused: 'none opens while the federation is paused', finished: 'all rounds are done', failed: 'training cannot continue', archived: 'the federation is archived' }[one.state];
  }

  // -- Actions.
  function buttons(one) {
    if (!operates() || one.state === 'archived') return make('div', {});
    const press = (does, words, grave) => make('button', { type: 'button', 'data-does': does, class: grave ? 'grave' : null, click: () => act(one, does) }, words);
    const sure = (does) => state.sure === one.name + ' ' + does;
    const over = one.state === 'finished' || one.state === 'failed';
    return make('div', {},
      one.state !== 'failed' && press('extend', 'Add 10 rounds'),
      !over && (one.state === 'paused' ? press('resume', 'Resume') : press('pause', 'Pause')),
      !over && (sure('finish') ? press('finish', 'Finish for good', true) : press('finish', 'Finish…')),
      sure('archive') ? press('archive', 'Archive for good', true) : press('archive', 'Archive…'));
  }
  // What archiving deletes and leaves, before it is done.
  function warning(one) {
    const told = state.told;
    if (!told || told.name !== one.name || state.sure !== one.name + ' archive') return null;
    const list = (title, all) => [make('p', {}, title), make('ul', {}, all.map((each) => make('li', {}, each)))];
    return make('div', { class: 'trouble', role: 'alert' }, list('Archiving deletes, for good:', told.archive_deletes), list('It leaves:', told.archive_keeps));
  }
  async function act(one, does) {
    const sure = one.name + ' ' + does;
    if ((does === 'finish' || does === 'archive') && state.sure !== sure) {
      state.sure = sure;
      if (does === 'archive') {
        try { state.told = await (await ask(at_federation(one, '/deletion'))).json(); } catch (e) { state.sure = null; return say(e.message); }
      }
      setTimeout(() => { if (state.sure === sure) { state.sure = null; show(); } }, does === 'archive' ? 30000 : 6000);
      return showOne(one);
    }
    state.sure = null;
    const bodies = { extend: { rounds: 10 }, archive: { confirm: one.name } };
    try {
      const view = await (await ask(at_federation(one, '/' + does), 'POST', bodies[does])).json();
      state.federations = state.federations.map((each) => (each.name === view.name ? view : each));
      if (does === 'archive') state.tokens = [];
      say('');
      show();
      fetchActs();
    } catch (e) {
      say(e.message);
    }
    return undefined;
  }

  // -- Charts.
  const HEIGHT = 220, LEFT = 46, BOTTOM = 26, TOP = 10;
  // Round numbers from low to high.
  function ticks(low, high) {
    const rough = (high - low) / 4 || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
    const all = [];
    for (let place = Math.ceil(low / step - 1e-9); place * step <= high + step * 1e-9; place++) all.push(place * step || 0);
    return all;
  }
  function frame(rounds, low, high, write, width, name) {
    const across = width - LEFT - 4, down = HEIGHT - TOP - BOTTOM;
    const x = (place) => LEFT + across * (place + 0.5) / rounds.length;
    const y = (value) => TOP + down * (1 - (value - low) / ((high - low) || 1));
    const svg = make('svg', { viewBox: '0 0 ' + width + ' ' + HEIGHT, role: 'img', 'aria-label': name });
    for (const value of ticks(low, high)) {
      svg.append(make('line', { class: 'axis', x1: LEFT, x2: width - 4, y1: y(value), y2: y(value) }),
        make('text', { x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' }, write(value)));
    }
    const room = rounds.length / (width > 600 ? 12 : 6);
    const every = [1, 2, 5, 10, 20, 50, 100].find((each) => each >= room) || 200;
    rounds.forEach((round, place) => {
      if (round.round % every === 0) svg.append(make('text', { x: x(place), y: HEIGHT - 6, 'text-anchor': 'middle' }, number(round.round)));
    });
    return { svg, x, y, wide: across / rounds.length };
  }
  function spots({ svg, x, wide }, rounds, words) {
    rounds.forEach((round, place) => svg.append(make('rect', { class: 'spot', x: x(place) - wide / 2, y: TOP, width: wide, height: HEIGHT - TOP - BOTTOM },
      make('title', {}, words(round)))));
  }
  const dots = { counted: 'counted', declined: 'declined', missing: 'missing', refused: 'refused', down: 'down' };
  const key = (entries) => make('ul', { class: 'key' }, entries.map(([of, words]) => make('li', {},
    make('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' }, make('rect', { class: dots[of], width: 10, height: 10, rx: 2 })), words)));

  function participation(rounds, width) {
    const parts = (round) => [['counted', round.counted], ['declined', round.declined], ['missing', Math.max(0, round.asked - round.counted - round.declined)], ['refused', round.refused]];
    const high = Math.max(1, ...rounds.map((round) => Math.max(round.asked, round.counted + round.declined) + round.refused));
    const drawn = frame(rounds, 0, high, (value) => (Number.isInteger(value) ? number(value) : ''), width, 'Participation by round');
    const bar = Math.max(1, Math.min(28, drawn.wide * 0.72));
    rounds.forEach((round, place) => {
      let from = 0;
      for (const [of, count] of parts(round)) {
        if (count > 0) drawn.svg.append(make('rect', { class: of, x: drawn.x(place) - bar / 2, width: bar, y: drawn.y(from + count), height: Math.max(0.5, drawn.y(from) - drawn.y(from + count)) }));
        from += count;
      }
    });
    spots(drawn, rounds, (round) => 'Round ' + number(round.round) + ': ' + number(round.asked) + ' selected, ' + number(round.counted) + ' aggregated, ' + number(round.declined) + ' declined, ' + several(round.refused, 'upload', 'uploads') + ' rejected' + (round.remark ? ' (' + round.remark + ')' : ''));
    return drawn.svg;
  }
  function lines(rounds, width, series, write, name, fromZero) {
    const values = series.flatMap(([, of]) => rounds.map(of)).filter((value) => value !== null && isFinite(value));
    const most = Math.max(...values), least = fromZero ? 0 : Math.min(...values);
    const room = fromZero ? 0 : (most - least || Math.abs(most) || 1) * 0.15;
    const drawn = frame(rounds, least - room, most + room || 1, write, width, name);
    for (const [style, of] of series) {
      let path = '', joined = false;
      rounds.forEach((round, place) => {
        const value = of(round);
        if (value === null || !isFinite(value)) { joined = false; return; }
        path += (joined ? 'L' : 'M') + drawn.x(place).toFixed(1) + ' ' + drawn.y(value).toFixed(1);
        joined = true;
        if (rounds.length < 40) drawn.svg.append(make('circle', { class: style, cx: drawn.x(place), cy: drawn.y(value), r: 2.5 }));
      });
      drawn.svg.append(make('path', { class: 'line ' + style, d: path }));
    }
    return drawn;
  }
  function criterion(rounds, name, width) {
    const of = (round) => { const told = round.criteria && round.criteria[name]; return told ? told.mean : null; };
    const write = (value) => String(Number(value.toPrecision(6)));
    const drawn = lines(rounds, width, [['counted', of]], write, name + ', by round');
    spots(drawn, rounds, (round) => (of(round) === null ? 'Round ' + number(round.round) + ': not reported' : 'Round ' + number(round.round) + ': ' + name + ' ' + of(round).toPrecision(4) + ' from ' + several(round.criteria[name].devices, 'device', 'devices')));
    return drawn.svg;
  }
  function traffic(rounds, width) {
    const drawn = lines(rounds, width, [['counted', (round) => round.bytes_up], ['down', (round) => round.bytes_down]], bytes, 'Bytes sent, by round', true);
    spots(drawn, rounds, (round) => 'Round ' + number(round.round) + ': ' + bytes(round.bytes_up) + ' by devices, ' + bytes(round.bytes_down) + ' to devices');
    return drawn.svg;
  }
  function charts() {
    const rounds = state.rounds;
    if (!rounds.length) return make('p', { class: 'none' }, 'Charts start with the first closed round.');
    const all = document.querySelector('main').clientWidth || 900;
    const half = all > 930 ? (all - 40) / 2 : all;
    const names = [...new Set(rounds.flatMap((round) => Object.keys(round.criteria || {})))].sort();
    const chart = (title, words, svg, legend, full) => make('figure', { class: full ? 'full' : null },
      make('figcaption', {}, make('h2', {}, title), make('p', {}, words)), svg, legend);
    const odd = names.length % 2 === 0;
    return make('div', { class: 'charts' },
      chart('Participation', 'Devices selected for each round, and their answers.', participation(rounds, all),
        key([['counted', 'aggregated'], ['declined', 'declined'], ['missing', 'did not answer in time'], ['refused', 'uploads rejected, on top']]), true),
      names.map((name) => chart(name, 'The mean of the devices’ reports, if their owners permit them.', criterion(rounds, name, half), null)),
      chart('Traffic', 'Models to devices, and updates from devices.', traffic(rounds, odd ? all : half), key([['counted', 'from devices'], ['down', 'to devices']]), odd));
  }
  function past() {
    const rounds = state.rounds.slice(-LISTED).reverse();
    if (!rounds.length) return null;
    const names = [...new Set(state.rounds.flatMap((round) => Object.keys(round.criteria || {})))].sort();
    const heads = ['Round', 'Selected', 'Aggregated', 'Declined', 'Rejected', ...names, 'Up', 'Down', 'Duration'];
    const mean = (round, name) => { const told = round.criteria && round.criteria[name]; return told && told.mean !== null ? told.mean.toPrecision(4) : '–'; };
    const row = (round) => make('tr', {}, make('td', {}, number(round.round)),
      [round.asked, round.counted, round.declined, round.refused].map((count) => make('td', {}, number(count))),
      names.map((name) => make('td', {}, mean(round, name))),
      make('td', {}, bytes(round.bytes_up)), make('td', {}, bytes(round.bytes_down)), make('td', {}, round.closed > round.opened ? span((round.closed - round.opened) / 1000) : 'under 1 ms'),
      make('td', { class: 'words' }, round.remark || (round.version === null && !round.counted ? 'abandoned' : '')));
    return make('div', { class: 'past' }, make('h2', {}, 'Latest rounds'), wide(make('table', {},
      make('thead', {}, make('tr', {}, heads.map((head) => make('th', { scope: 'col' }, head)), make('th', {}))),
      make('tbody', {}, rounds.map(row)))));
  }
  // A table that scrolls sideways where it has to, and says so above its first line.
  const wide = (table) => [make('p', { class: 'swipe', hidden: true }, 'more columns to the right →'), make('div', { class: 'scroll' }, table)];
  function hint() {
    for (const each of document.querySelectorAll('.swipe')) each.hidden = each.nextElementSibling.scrollWidth <= each.nextElementSibling.clientWidth;
  }
  addEventListener('resize', () => { if (state.federations) show(); });

  if (token()) enter(); else { at('enter').hidden = false; at('token').focus(); }
})();

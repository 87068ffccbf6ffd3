'use strict';
(function () {
  var root = document.documentElement;
  var store = function (value) {
    try {
      if (value === undefined) return localStorage.getItem('sottovoce-theme');
      localStorage.setItem('sottovoce-theme', value);
    } catch (e) { return null; }
  };

  // Theme: what the address asks for, else what was chosen before, else what the system prefers.
  var asked = /[?#&]theme=(light|dark)/.exec(location.search + location.hash);
  var theme = asked ? asked[1] : store();
  if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  var isDark = function () {
    return root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme:dark)').matches;
  };
  var toggle = document.querySelector('.theme');
  var label = function () { toggle.textContent = isDark() ? 'Light' : 'Dark'; };
  toggle.hidden = false;
  toggle.setAttribute('aria-label', 'Switch between light and dark');
  toggle.addEventListener('click', function () {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    store(root.dataset.theme);
    label();
  });
  label();

  // Sorting: each group of lines by itself; missing values last either way; a third click restores the order.
  var value = function (row, at) {
    var cell = row.cells[at];
    if (cell.dataset.v !== undefined) return parseFloat(cell.dataset.v);
    var text = cell.textContent.trim();
    return cell.classList.contains('num') ? null : text.toLowerCase();
  };
  var compare = function (a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
    return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  document.querySelectorAll('.table table').forEach(function (table) {
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    var bodies = Array.prototype.slice.call(table.tBodies).map(function (body) {
      var rows = Array.prototype.slice.call(body.rows);
      return { body: body, rows: rows.filter(function (r) { return r.cells.length === heads.length; }) };
    });
    heads.forEach(function (head, at) {
      head.tabIndex = 0;
      head.classList.add('sorts');
      var sort = function () {
        var first = head.dataset.first === 'down' ? 'descending' : 'ascending';
        var other = first === 'descending' ? 'ascending' : 'descending';
        var now = head.getAttribute('aria-sort');
        var next = now === first ? other : now === other ? null : first;
        heads.forEach(function (h) { h.removeAttribute('aria-sort'); });
        if (next) head.setAttribute('aria-sort', next);
        bodies.forEach(function (part) {
          var rows = part.rows.slice();
          if (next) {
            var sign = next === 'ascending' ? 1 : -1;
            rows.sort(function (a, b) { return compare(value(a, at), value(b, at), sign); });
          }
          rows.forEach(function (row) { part.body.appendChild(row); });
        });
      };
      head.addEventListener('click', sort);
      head.addEventListener('keydown', function (e) {
        if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); sort(); }
      });
    });
  });

  // Tooltips: the words of title elements and attributes, at once and in the page's own type.
  var tip = document.createElement('div');
  tip.className = 'tip';
  tip.setAttribute('role', 'tooltip');
  tip.hidden = true;
  document.body.appendChild(tip);
  var lit = null;
  var hide = function () {
    tip.hidden = true;
    if (lit) lit.classList.remove('pl-on');
    lit = null;
  };
  var show = function (words, x, y) {
    var lines = words.split('\n');
    tip.textContent = '';
    lines.forEach(function (line, at) {
      var row = document.createElement('div');
      if (at === 0 && lines.length > 1) row.className = 'tip-head';
      row.textContent = line;
      tip.appendChild(row);
    });
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    var left = Math.min(Math.max(8, x - box.width / 2), innerWidth - box.width - 8);
    var top = y - box.height - 14;
    tip.style.left = left + 'px';
    tip.style.top = (top < 8 ? y + 18 : top) + 'px';
  };
  document.querySelectorAll('svg.pl').forEach(function (svg) {
    var marks = Array.prototype.map.call(svg.querySelectorAll('.pl-tip'), function (node) {
      var title = node.querySelector('title');
      var words = title.textContent;
      title.remove();
      return { node: node, words: words, x: +node.dataset.x, y: +node.dataset.y };
    });
    if (!marks.length) return;
    var find = function (event) {
      var own = event.target.closest('.pl-tip');
      var frame = svg.getScreenCTM();
      if (!frame) return;
      var at = new DOMPoint(event.clientX, event.clientY).matrixTransform(frame.inverse());
      var best = null;
      var nearest = 26;
      marks.forEach(function (mark) {
        var away = mark.node === own ? 0 : Math.hypot(mark.x - at.x, mark.y - at.y);
        if (away < nearest) { nearest = away; best = mark; }
      });
      if (!best) return hide();
      if (lit !== best.node) { hide(); lit = best.node; lit.classList.add('pl-on'); }
      var place = new DOMPoint(best.x, best.y).matrixTransform(frame);
      show(best.words, place.x, place.y);
    };
    svg.addEventListener('pointermove', find);
    svg.addEventListener('pointerdown', find);
    svg.addEventListener('pointerleave', hide);
  });
  document.querySelectorAll('th[title],sup[title]').forEach(function (node) {
    var words = node.title;
    node.removeAttribute('title');
    node.setAttribute('aria-description', words);
    var open = function () {
      var box = node.getBoundingClientRect();
      show(words, box.left + box.width / 2, box.top);
    };
    node.addEventListener('pointerenter', open);
    node.addEventListener('focus', open);
    node.addEventListener('pointerleave', hide);
    node.addEventListener('blur', hide);
  });
  addEventListener('scroll', hide, { passive: true, capture: true });

  addEventListener('beforeprint', function () {
    document.querySelectorAll('details').forEach(function (d) { d.open = true; });
  });
})();
